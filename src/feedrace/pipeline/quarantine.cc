// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/quarantine.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"

namespace feedrace::pipeline {
namespace {

void put_text(nlohmann::json& line, const std::string& name, const std::string& value) {
  if (is_utf8(value)) {
    line[name] = value;
  } else {
    line[name + "_hex"] = hex_of(value);
  }
}

std::string line_of(const formats::Dataset& dataset, std::uint64_t sample, std::uint64_t epoch,
                    std::string_view code, std::string_view reason) {
  const formats::Place place = dataset.place(sample);
  nlohmann::json line;
  if (place.shard == formats::Place::kOwnFile) {
    line["shard"] = nullptr;
  } else {
    put_text(line, "shard", dataset.shards()[place.shard]);
  }
  put_text(line, "key", dataset.key(sample));
  line["offset"] = place.offset_bytes;
  if (place.size_bytes != formats::Place::kUnknownSize) line["size"] = place.size_bytes;
  line["sample"] = sample;
  line["epoch"] = epoch;
  line["code"] = code;
  line["reason"] = reason;
  return line.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace

Quarantine::Quarantine(const std::string& path) : path_(path) {
  if (path_.empty()) return;
  // Non-blocking: a pipe that nobody reads must not hold up the start.
  fd_ = open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NONBLOCK, 0666);
  if (fd_ < 0) {
    throw Error(ErrorCode::kIo,
                fmt::format("{}: the quarantine file can't be written ({}); name another with "
                            "quarantine_file",
                            printable(path_), errno_text("open", errno)));
  }
}

Quarantine::~Quarantine() {
  if (fd_ >= 0) close(fd_);
}

Result<void> Quarantine::add(const formats::Dataset& dataset, std::uint64_t sample,
                             std::uint64_t epoch, std::string_view code, std::string_view reason) {
  if (fd_ < 0) return {};
  std::lock_guard lock(mutex_);
  if (!written_.insert(sample).second) return {};
  const std::string line = line_of(dataset, sample, epoch, code, reason);
  const ssize_t written = write(fd_, line.data(), line.size());
  if (written == static_cast<ssize_t>(line.size())) return {};
  const std::string cause = written < 0 ? errno_text("write", errno) : "write: cut short";
  return Failure{ErrorCode::kIo, fmt::format("{}: the quarantine line was not written ({}); free "
                                             "space or name another file",
                                             printable(path_), cause)};
}

}  // namespace feedrace::pipeline
