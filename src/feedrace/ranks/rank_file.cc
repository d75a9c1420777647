// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ranks/rank_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <exception>
#include <filesystem>
#include <random>
#include <string_view>
#include <system_error>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/error.h"

namespace feedrace::ranks {
namespace {

using nlohmann::json;

constexpr const char* kFormatName = "feedrace rank";

class Fd {
 public:
  explicit Fd(int fd) noexcept : fd_(fd) {}
  ~Fd() {
    if (fd_ >= 0) close(fd_);
  }
  Fd(const Fd&) = delete;
  Fd& operator=(const Fd&) = delete;

  int get() const noexcept { return fd_; }
  /// Network file systems report a full disk here. An errno, or 0.
  int close_now() noexcept { return close(std::exchange(fd_, -1)) == 0 ? 0 : errno; }

 private:
  int fd_;
};

[[noreturn]] void refuse_folder(const std::string& path, std::string_view call, int error_number) {
  throw Error(ErrorCode::kIo,
              fmt::format("rank check: {}: {}; give a folder that all ranks can write to",
                          printable(path), errno_text(call, error_number)));
}

std::string path_of(const std::string& folder, std::uint64_t rank) {
  return fmt::format("{}/rank-{}.json", folder, rank);
}

/// An errno, or 0.
int write_all(int fd, std::string_view bytes) noexcept {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written == 0) return EIO;
    if (written < 0 && errno != EINTR) return errno;
    if (written > 0) bytes.remove_prefix(static_cast<std::size_t>(written));
  }
  return 0;
}

/// An errno, or 0. Whatever the mask of new files says, ranks of another user must read it.
int write_and_close(Fd& fd, std::string_view bytes) noexcept {
  constexpr mode_t kReadable = 0644;
  if (const int error = write_all(fd.get(), bytes); error != 0) return error;
  if (fchmod(fd.get(), kReadable) != 0) return errno;
  return fd.close_now();
}

std::optional<std::string> read_small(const std::string& path) {
  // A pipe of that name would block an ordinary open.
  const Fd fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status = {};
  if (fd.get() < 0 || fstat(fd.get(), &status) != 0 || !S_ISREG(status.st_mode)) {
    return std::nullopt;
  }
  if (std::cmp_greater(status.st_size, kMostRankFileBytes)) return std::nullopt;
  std::string bytes(static_cast<std::size_t>(status.st_size), '\0');
  std::size_t length = 0;
  while (length < bytes.size()) {
    const ssize_t count = read(fd.get(), bytes.data() + length, bytes.size() - length);
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    length += static_cast<std::size_t>(count);
  }
  bytes.resize(length);
  return bytes;
}

json texts_to_json(const std::vector<std::string>& texts) {
  json values = json::array();
  for (const std::string& text : texts) values.push_back(text_to_json(text));
  return values;
}

std::string file_to_json(const RankFile& file) {
  json root = {{"format", kFormatName},
               {"rank", file.rank},
               {"world_size", file.world_size},
               {"occasion", text_to_json(file.occasion)},
               {"nonce", file.nonce},
               {"echo", file.echo},
               {"text", text_to_json(file.text)}};
  if (file.answer) {
    root["answer"] = {{"nonces", file.answer->nonces},
                      {"texts", texts_to_json(file.answer->texts)}};
  }
  return root.dump() + "\n";
}

/// Throws what is no text.
std::string text_of(const json& value) { return text_from_json(value).value(); }

RankFile::Answer answer_from_json(const json& value) {
  RankFile::Answer answer;
  answer.nonces = value.at("nonces").get<std::vector<std::string>>();
  for (const json& text : value.at("texts")) answer.texts.push_back(text_of(text));
  if (answer.nonces.size() != answer.texts.size()) throw Error(ErrorCode::kCorruptData, "answer");
  return answer;
}

RankFile file_from_json(const json& root) {
  if (root.at("format") != kFormatName) throw Error(ErrorCode::kCorruptData, "format");
  RankFile file;
  file.rank = root.at("rank").get<std::uint64_t>();
  file.world_size = root.at("world_size").get<std::uint64_t>();
  file.occasion = text_of(root.at("occasion"));
  file.nonce = root.at("nonce").get<std::string>();
  file.echo = root.at("echo").get<std::string>();
  file.text = text_of(root.at("text"));
  if (const auto answer = root.find("answer"); answer != root.end()) {
    file.answer = answer_from_json(*answer);
  }
  return file;
}

}  // namespace

std::string make_nonce() {
  std::random_device device;  // From the kernel or the processor: alike on no two machines.
  const std::uint64_t high = device();
  return fmt::format("{:016x}", high << 32 | device());
}

void write_rank_file(const std::string& folder, const RankFile& file) {
  const std::string bytes = file_to_json(file);
  if (bytes.size() > kMostRankFileBytes) {
    throw Error(
        ErrorCode::kIo,
        fmt::format("rank check: the texts of {} ranks are {}, more than a file may have, "
                    "{}; give all_gather instead of a folder",
                    file.world_size, human_bytes(bytes.size()), human_bytes(kMostRankFileBytes)));
  }
  const std::string target = path_of(folder, file.rank);
  const std::string temporary =
      fmt::format("{}/.rank-{}.{}-{}.tmp", folder, file.rank, getpid(), file.nonce);
  Fd fd(open(temporary.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (fd.get() < 0) refuse_folder(temporary, "open", errno);
  int error = write_and_close(fd, bytes);
  if (error == 0 && rename(temporary.c_str(), target.c_str()) != 0) error = errno;
  if (error == 0) return;
  unlink(temporary.c_str());
  refuse_folder(target, "write", error);
}

std::optional<RankFile> read_rank_file(const std::string& folder, std::uint64_t rank) {
  const std::optional<std::string> bytes = read_small(path_of(folder, rank));
  if (!bytes) return std::nullopt;
  try {
    RankFile file = file_from_json(parse_shallow_json(*bytes));
    if (file.rank == rank) return file;
  } catch (const std::exception&) {  // Rubbish, which the next writer replaces.
    return std::nullopt;
  }
  return std::nullopt;
}

void make_rank_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  std::error_code ignored;
  if (error && !std::filesystem::is_directory(folder, ignored)) {
    refuse_folder(folder, "mkdir", error.value());
  }
}

}  // namespace feedrace::ranks
