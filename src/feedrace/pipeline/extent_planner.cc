// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/extent_planner.h"

#include <algorithm>
#include <cassert>

#include "feedrace/core/alignment.h"

namespace feedrace::pipeline {

void ExtentPlanner::add(const Wanted& wanted) {
  wanted_.emplace(key_of(wanted), wanted.size_bytes);
}

void ExtentPlanner::remove(const Wanted& wanted) { wanted_.erase(key_of(wanted)); }

PlannedExtent ExtentPlanner::take(const Wanted& wanted, std::uint64_t last_ticket,
                                  std::uint64_t alignment_bytes) {
  const auto middle = wanted_.find(key_of(wanted));
  assert(middle != wanted_.end());
  std::uint64_t begin = wanted.offset_bytes;
  std::uint64_t end = wanted.offset_bytes + wanted.size_bytes;
  PlannedExtent extent;
  extent.tickets.push_back(wanted.ticket);
  const auto fits = [&](std::uint64_t from, std::uint64_t to) {
    return round_up(to, alignment_bytes) - round_down(from, alignment_bytes) <= options_.max_bytes;
  };
  // Upwards first: shards are read forwards, and what lies behind has mostly been read.
  for (auto next = std::next(middle); next != wanted_.end();) {
    const auto [shard, offset] = next->first.first;
    const std::uint64_t new_end = std::max(end, offset + next->second);
    const bool is_near = shard == wanted.shard && offset <= end + options_.max_gap_bytes;
    if (!is_near || !fits(begin, new_end)) break;
    if (next->first.second > last_ticket) {
      ++next;  // It may not ride along, but one behind it may, if the gap allows.
      continue;
    }
    end = new_end;
    extent.tickets.push_back(next->first.second);
    next = wanted_.erase(next);
  }
  while (middle != wanted_.begin()) {
    const auto before = std::prev(middle);
    const auto [shard, offset] = before->first.first;
    const bool is_near = shard == wanted.shard && before->first.second <= last_ticket &&
                         offset + before->second + options_.max_gap_bytes >= begin;
    const std::uint64_t new_end = std::max(end, offset + before->second);
    if (!is_near || !fits(std::min(begin, offset), new_end)) break;
    begin = std::min(begin, offset);
    end = new_end;
    extent.tickets.push_back(before->first.second);
    wanted_.erase(before);
  }
  wanted_.erase(middle);
  extent.begin_bytes = round_down(begin, alignment_bytes);
  extent.end_bytes = round_up(end, alignment_bytes);
  return extent;
}

}  // namespace feedrace::pipeline
