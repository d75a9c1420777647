// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/equal_hashes.h"

#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <queue>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"

namespace feedrace::pack {
namespace {

using Record = EqualHashes::Record;

/// Records that each run has in memory while they are merged: 64 KiB.
constexpr std::size_t kReadAtOnce = 4096;
constexpr const char* kFile = "temporary file for keys";

std::string temporary_folder() {
  const char* given = getenv("TMPDIR");  // NOLINT(concurrency-mt-unsafe): nothing here sets it.
  return given == nullptr || *given == '\0' ? "/tmp" : given;
}

[[noreturn]] void fail(const std::string& reason) {
  throw Error(ErrorCode::kIo,
              fmt::format("{}: {}; free space there, or name another folder in TMPDIR",
                          printable(temporary_folder()), reason));
}

formats::Fd open_nameless() {
  const std::string folder = temporary_folder();
  formats::Fd fd(open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, S_IRUSR | S_IWUSR));
  if (fd) return fd;
  // Some file systems have no files without a name.
  std::string path = folder + "/feedrace-keys-XXXXXX";
  fd = formats::Fd(mkostemp(path.data(), O_CLOEXEC));
  if (!fd) fail(errno_text("create a temporary file", errno));
  unlink(path.c_str());
  return fd;
}

}  // namespace

/// The records of one run, or of memory, in order.
class EqualHashes::Reader {
 public:
  Reader(int fd, Run run) : fd_(fd), run_(run) { fill(); }
  explicit Reader(std::vector<Record> records) : window_(std::move(records)) {}

  bool is_at_end() const noexcept { return at_ == window_.size(); }
  const Record& front() const noexcept { return window_[at_]; }
  void pop() {
    if (++at_ == window_.size() && run_.count > 0) fill();
  }

 private:
  void fill() {
    window_.resize(std::min<std::uint64_t>(kReadAtOnce, run_.count));
    at_ = 0;
    const std::span bytes(reinterpret_cast<char*>(window_.data()), window_.size() * sizeof(Record));
    const auto got = formats::read_at(fd_, kFile, run_.begin * sizeof(Record), bytes);
    if (!got) fail(got.error().message);
    if (*got != bytes.size()) fail("the temporary file for keys became shorter");
    run_.begin += window_.size();
    run_.count -= window_.size();
  }

  int fd_ = -1;
  Run run_;
  std::vector<Record> window_;
  std::size_t at_ = 0;
};

void EqualHashes::add(const Record& record) {
  if (records_.size() == limit_) spill();
  records_.push_back(record);
}

void EqualHashes::spill() {
  if (!file_) file_ = open_nameless();
  std::sort(records_.begin(), records_.end());
  const std::uint64_t begin = runs_.empty() ? 0 : runs_.back().begin + runs_.back().count;
  const std::string_view bytes(reinterpret_cast<const char*>(records_.data()),
                               records_.size() * sizeof(Record));
  const auto written = formats::write_at(file_.get(), kFile, begin * sizeof(Record), bytes);
  if (!written) fail(written.error().message);
  runs_.push_back({begin, records_.size()});
  records_.clear();
}

void EqualHashes::each_group(const std::function<bool(std::span<const Record>)>& take) {
  std::sort(records_.begin(), records_.end());
  std::vector<Reader> readers;
  readers.reserve(runs_.size() + 1);
  for (const Run& run : runs_) readers.emplace_back(file_.get(), run);
  readers.emplace_back(std::exchange(records_, {}));

  const auto is_later = [&readers](std::size_t a, std::size_t b) {
    return readers[b].front() < readers[a].front();
  };
  std::priority_queue<std::size_t, std::vector<std::size_t>, decltype(is_later)> next(is_later);
  for (std::size_t i = 0; i < readers.size(); ++i) {
    if (!readers[i].is_at_end()) next.push(i);
  }
  std::vector<Record> group;
  bool goes_on = true;
  while (goes_on && !next.empty()) {
    const std::size_t i = next.top();
    next.pop();
    if (!group.empty() && group.front().hash != readers[i].front().hash) {
      if (group.size() > 1) goes_on = take(group);
      group.clear();
    }
    group.push_back(readers[i].front());
    readers[i].pop();
    if (!readers[i].is_at_end()) next.push(i);
  }
  if (goes_on && group.size() > 1) take(group);
}

}  // namespace feedrace::pack
