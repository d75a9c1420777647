// SPDX-License-Identifier: Apache-2.0
#include "feedrace/stats.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace feedrace {
namespace {

/// Values below 16 have a bucket each; above, the four bits after the leading one choose among the
/// 16 buckets of their power of two.
std::size_t bucket_of(std::uint64_t value) noexcept {
  if (value < LatencyHistogram::kSubBuckets) return static_cast<std::size_t>(value);
  const auto exponent = static_cast<std::size_t>(std::bit_width(value) - 1);  // At least 4.
  const std::uint64_t sub = (value >> (exponent - 4)) & (LatencyHistogram::kSubBuckets - 1);
  return (exponent - 3) * LatencyHistogram::kSubBuckets + static_cast<std::size_t>(sub);
}

/// The largest value that falls into `bucket`.
std::uint64_t upper_edge(std::size_t bucket) noexcept {
  if (bucket < LatencyHistogram::kSubBuckets) return bucket;
  const std::size_t shift = bucket / LatencyHistogram::kSubBuckets - 1;
  const std::uint64_t lead = LatencyHistogram::kSubBuckets + bucket % LatencyHistogram::kSubBuckets;
  return ((lead + 1) << shift) - 1;  // Wraps to the largest value in the last bucket, as it should.
}

}  // namespace

const char* to_string(Path path) noexcept {
  constexpr std::array<const char*, kPathCount> kNames = {"page_cache", "uncached", "direct", "gds",
                                                          "gds_compat", "network",  "memory"};
  return kNames[static_cast<std::size_t>(path)];
}

std::size_t copies_of(Path path) noexcept {
  switch (path) {
    case Path::kPageCache:
    case Path::kUncached:
    case Path::kGdsCompat:
    case Path::kNetwork:
      return 1;
    case Path::kDirect:
    case Path::kGds:
    case Path::kMemory:
      return 0;
  }
  return 1;
}

void LatencyHistogram::record(std::uint64_t nanoseconds) noexcept {
  ++buckets_[bucket_of(nanoseconds)];
  ++count_;
  sum_ += nanoseconds;
  max_ = std::max(max_, nanoseconds);
}

void LatencyHistogram::merge(const LatencyHistogram& other) noexcept {
  for (std::size_t i = 0; i < kBucketCount; ++i) buckets_[i] += other.buckets_[i];
  count_ += other.count_;
  sum_ += other.sum_;
  max_ = std::max(max_, other.max_);
}

LatencyHistogram LatencyHistogram::since(const LatencyHistogram& earlier) const noexcept {
  LatencyHistogram rest = *this;
  for (std::size_t i = 0; i < kBucketCount; ++i) rest.buckets_[i] -= earlier.buckets_[i];
  rest.count_ -= earlier.count_;
  rest.sum_ -= earlier.sum_;
  return rest;
}

std::uint64_t LatencyHistogram::quantile_ns(double q) const noexcept {
  if (count_ == 0) return 0;
  const double wanted = std::ceil(std::clamp(q, 0.0, 1.0) * static_cast<double>(count_));
  const auto rank = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(wanted));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBucketCount; ++i) {
    seen += buckets_[i];
    if (seen >= rank) return std::min(upper_edge(i), max_);
  }
  return max_;
}

std::uint64_t LatencyHistogram::count_up_to_ns(std::uint64_t ns) const noexcept {
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBucketCount && upper_edge(i) <= ns; ++i) seen += buckets_[i];
  return seen;
}

double Stats::copies_per_byte() const noexcept {
  std::uint64_t bytes = 0;
  std::uint64_t copied = 0;
  for (std::size_t i = 0; i < kPathCount; ++i) {
    bytes += bytes_by_path[i];
    copied += bytes_by_path[i] * copies_of(static_cast<Path>(i));
  }
  return bytes == 0 ? 0 : static_cast<double>(copied) / static_cast<double>(bytes);
}

}  // namespace feedrace
