// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/output_check.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <optional>
#include <system_error>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/bad_sample.h"
#include "feedrace/formats/posix_file.h"
#include "feedrace/formats/shard_sources.h"

namespace feedrace::formats {
namespace {

namespace fs = std::filesystem;

constexpr std::size_t kHeadBytes = 4096;
// Files that become samples of a folder, or one of its shards.
constexpr std::array<std::string_view, 9> kSampleEndings = {
    ".jpg", ".jpeg", ".png", ".webp", ".npy", ".npy.lz4", ".npy.zst", ".tar", ".tgz"};

std::optional<struct stat> status_of(const std::string& path) {
  struct stat status{};
  if (stat(path.c_str(), &status) != 0) return std::nullopt;
  return status;
}

bool is_same(const struct stat& one, const struct stat& other) {
  return one.st_dev == other.st_dev && one.st_ino == other.st_ino;
}

std::string head_of(const std::string& path) {
  const Fd fd(open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  std::string head(kHeadBytes, '\0');
  const ssize_t got = fd ? read(fd.get(), head.data(), head.size()) : 0;
  head.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return head;
}

bool is_sample_name(const std::string& path) {
  std::string name = base_name(path);
  std::transform(name.begin(), name.end(), name.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return std::any_of(kSampleEndings.begin(), kSampleEndings.end(),
                     [&](std::string_view ending) { return name.ends_with(ending); });
}

/// With the links on the way to its folder followed, whether it is there or not.
fs::path real_path(const std::string& path) {
  std::error_code error;
  const fs::path real = fs::weakly_canonical(fs::absolute(path, error), error);
  return error ? fs::path(path).lexically_normal() : real;
}

bool is_below(const fs::path& path, const std::string& folder) {
  const fs::path root = real_path(folder);
  const auto [end, rest] = std::mismatch(root.begin(), root.end(), path.begin(), path.end());
  return end == root.end() && rest != path.end();
}

class OutputCheck {
 public:
  OutputCheck(std::string_view option, const std::string& output, OwnOutput is_own)
      : option_(option), output_(output), is_own_(is_own), status_(status_of(output)) {}

  void run(const InputFiles& inputs) const {
    if (status_ && !S_ISREG(status_->st_mode) && !S_ISDIR(status_->st_mode)) return;
    for (const std::string& file : inputs.files) compare(file);
    for (const std::string& source : inputs.sources) check_source(source);
    if (inputs.set != nullptr) check_set(*inputs.set);
  }

 private:
  [[noreturn]] void refuse(std::string_view what) const {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} {}: {}; name a file elsewhere", option_, printable(output_), what));
  }

  bool is_file() const { return status_ && S_ISREG(status_->st_mode); }

  void compare(const std::string& input) const {
    if (!is_file() || input.empty()) return;
    const auto read = status_of(input);
    if (read && is_same(*read, *status_)) {
      refuse(fmt::format("is {}, which is read", printable(input)));
    }
  }

  void check_source(const std::string& source) const {
    const auto status = status_of(source);
    if (!status) {
      // A pattern; what does not open is told where it is opened.
      if (is_file() && look_like_shards({source})) compare_shards(source);
    } else if (S_ISDIR(status->st_mode)) {
      check_folder(source);
    } else {
      compare(source);
    }
  }

  void compare_shards(const std::string& source) const {
    std::vector<std::string> shards;
    try {
      shards = find_shards({source}).paths;
    } catch (const Error&) {
      return;  // Told where the set is opened.
    }
    for (const std::string& shard : shards) compare(shard);
  }

  void check_folder(const std::string& folder) const {
    if (is_file() && look_like_shards({folder})) compare_shards(folder);
    if (!is_below(real_path(output_), folder)) return;
    if (is_sample_name(output_)) {
      refuse(fmt::format("would be a sample or a shard of {}", printable(folder)));
    }
    if (is_file() && status_->st_size > 0 && !is_own_(head_of(output_))) {
      refuse(fmt::format("is a file in the data set's folder {}", printable(folder)));
    }
  }

  /// Pictures that lie outside of the folders. Those of other names are not asked for: a million of
  /// calls would take seconds.
  void check_set(const Dataset& set) const {
    if (!is_file()) return;
    for (const std::string& shard : set.shards()) compare(shard);
    if (!set.shards().empty()) return;
    const std::string name = real_path(output_).filename();
    for (std::uint64_t i = 0; i < set.size(); ++i) {
      const std::string path = set.path(i);
      if (path.ends_with(name)) compare(path);
    }
  }

  const std::string_view option_;
  const std::string& output_;
  const OwnOutput is_own_;
  const std::optional<struct stat> status_;
};

}  // namespace

bool never_own(std::string_view) noexcept { return false; }

bool is_bad_list(std::string_view head) {
  const std::string_view line = head.substr(0, head.find('\n'));
  if (line.size() == head.size()) return line.starts_with("{\"") && line.size() == kHeadBytes;
  const std::optional<BadSample> sample = BadSample::from_line(line);
  return sample && !sample->code.empty();
}

void check_output(std::string_view option, const std::string& output, const InputFiles& inputs,
                  OwnOutput is_own) {
  if (output.empty()) return;
  OutputCheck(option, output, is_own).run(inputs);
}

}  // namespace feedrace::formats
