// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/bad_list.h"

#include <cstddef>
#include <utility>

namespace feedrace::pack {
namespace {

constexpr std::size_t kWriteBytes = std::size_t{64} << 10;

[[noreturn]] void fail(const Failure& failure) {
  throw Error(failure.code, "list of bad samples: " + failure.message);
}

}  // namespace

BadListFile::BadListFile(const std::string& path) {
  if (path.empty()) return;
  Result<formats::PendingFile> file = formats::PendingFile::create(path);
  if (!file) fail(file.error());
  file_.emplace(*std::move(file));
}

void BadListFile::add(const BadSample& sample) {
  if (!file_) return;
  waiting_ += sample.to_line();
  if (waiting_.size() >= kWriteBytes) flush();
}

void BadListFile::flush() {
  if (const Result<void> put = file_->append(waiting_); !put) fail(put.error());
  waiting_.clear();
}

void BadListFile::publish() {
  if (!file_) return;
  flush();
  if (const Result<void> put = file_->publish(); !put) fail(put.error());
}

}  // namespace feedrace::pack
