// SPDX-License-Identifier: Apache-2.0
// A file system for tests that shows a folder and misbehaves by rule:
//
//   faulty_fs FOLDER MOUNT_POINT [RULE...]      a RULE is FAULT:NUMBER:PATTERN
//
//   read-error:OFFSET   reads that reach beyond OFFSET bytes fail with EIO
//   short:MIN_BYTES     reads of more than MIN_BYTES get half of what they ask for
//   delay:MS            reads take so many milliseconds longer
//   open-error:ERRNO    files can't be opened
//   shrink:SIZE         files end at SIZE bytes, whatever size they are said to have
//   no-direct:0         files can't be opened with O_DIRECT
//   uncached:0          the kernel keeps no pages of files, and hands on each read as it is. Short
//                       reads need it: into its cache the kernel takes one for the end of the file.
//   parallel:0          requests are served at the same time, as a network store serves them
//
// PATTERN is a shell pattern for paths below FOLDER; `*` matches `/` too. Writes "ready" to
// standard output when it is mounted. Ends, and takes the mount with it, when its parent does.
#include <dirent.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#define FUSE_USE_VERSION 31
#include <fuse.h>

namespace {

struct Rule {
  std::string fault;
  std::uint64_t number = 0;
  std::string pattern;
};

struct Mirror {
  std::string folder;
  std::vector<Rule> rules;

  /// The number of the first rule of this fault for the file; nothing where there is none.
  std::optional<std::uint64_t> number_of(std::string_view fault, const char* path) const {
    const auto found = std::find_if(rules.begin(), rules.end(), [&](const Rule& rule) {
      return rule.fault == fault && fnmatch(rule.pattern.c_str(), path + 1, 0) == 0;
    });
    if (found == rules.end()) return std::nullopt;
    return found->number;
  }
};

const Mirror& mirror() { return *static_cast<const Mirror*>(fuse_get_context()->private_data); }

std::string real_path(const char* path) { return mirror().folder + path; }

void* on_init(fuse_conn_info* /*connection*/, fuse_config* config) {
  // The folder changes behind the kernel's back: what it is told holds for one question only.
  config->attr_timeout = 0;
  config->entry_timeout = 0;
  config->negative_timeout = 0;
  config->use_ino = 1;
  std::puts("ready");
  std::fflush(stdout);
  return fuse_get_context()->private_data;
}

int on_getattr(const char* path, struct stat* info, fuse_file_info* /*file*/) {
  return lstat(real_path(path).c_str(), info) == 0 ? 0 : -errno;
}

int on_readlink(const char* path, char* target, std::size_t size_bytes) {
  const ssize_t length = readlink(real_path(path).c_str(), target, size_bytes - 1);
  if (length < 0) return -errno;
  target[length] = '\0';
  return 0;
}

int on_readdir(const char* path, void* list, fuse_fill_dir_t fill, off_t /*offset*/,
               fuse_file_info* /*file*/, fuse_readdir_flags /*flags*/) {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(opendir(real_path(path).c_str()), closedir);
  if (!folder) return -errno;
  while (const dirent* entry = readdir(folder.get())) {
    fill(list, entry->d_name, nullptr, 0, static_cast<fuse_fill_dir_flags>(0));
  }
  return 0;
}

int on_open(const char* path, fuse_file_info* file) {
  if (const auto error_number = mirror().number_of("open-error", path)) {
    return -static_cast<int>(*error_number);
  }
  if ((file->flags & O_DIRECT) != 0 && mirror().number_of("no-direct", path)) return -EINVAL;
  // Our own reads go into the memory of libfuse, which no O_DIRECT would take.
  const int fd = open(real_path(path).c_str(), (file->flags & ~O_DIRECT) | O_CLOEXEC);
  if (fd < 0) return -errno;
  file->fh = static_cast<std::uint64_t>(fd);
  file->direct_io = mirror().number_of("uncached", path).has_value();
  return 0;
}

int on_read(const char* path, char* into, std::size_t size_bytes, off_t offset_bytes,
            fuse_file_info* file) {
  const auto begin = static_cast<std::uint64_t>(offset_bytes);
  const auto number_of = [&](std::string_view fault) { return mirror().number_of(fault, path); };
  if (const auto delay = number_of("delay")) {
    std::this_thread::sleep_for(std::chrono::milliseconds(*delay));
  }
  if (const auto error = number_of("read-error"); error && begin + size_bytes > *error) return -EIO;
  std::size_t wanted = size_bytes;
  if (const auto least = number_of("short"); least && wanted > *least) wanted /= 2;
  if (const auto end = number_of("shrink")) {
    wanted = std::min(wanted, static_cast<std::size_t>(*end - std::min(*end, begin)));
  }
  const ssize_t count = pread(static_cast<int>(file->fh), into, wanted, offset_bytes);
  return count < 0 ? -errno : static_cast<int>(count);
}

int on_release(const char* /*path*/, fuse_file_info* file) {
  close(static_cast<int>(file->fh));
  return 0;
}

fuse_operations operations() {
  fuse_operations made{};
  made.init = on_init;
  made.getattr = on_getattr;
  made.readlink = on_readlink;
  made.readdir = on_readdir;
  made.open = on_open;
  made.read = on_read;
  made.release = on_release;
  return made;
}

std::optional<Rule> rule_of(std::string_view text) {
  constexpr std::array<std::string_view, 8> kFaults = {
      "read-error", "short", "delay", "open-error", "shrink", "no-direct", "uncached", "parallel"};
  const std::size_t first = text.find(':');
  if (first == std::string_view::npos) return std::nullopt;
  const std::size_t second = text.find(':', first + 1);
  if (second == std::string_view::npos) return std::nullopt;
  Rule rule{std::string(text.substr(0, first)), 0, std::string(text.substr(second + 1))};
  const char* const end = text.data() + second;
  const auto number = std::from_chars(text.data() + first + 1, end, rule.number);
  const bool is_fault = std::find(kFaults.begin(), kFaults.end(), rule.fault) != kFaults.end();
  if (!is_fault || number.ec != std::errc{} || number.ptr != end) return std::nullopt;
  return rule;
}

}  // namespace

int main(int argc, char** argv) {
  const pid_t parent = getppid();
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) return 1;  // It died before the line above.
  if (argc < 3) {
    std::fputs("faulty_fs FOLDER MOUNT_POINT [FAULT:NUMBER:PATTERN...]\n", stderr);
    return 2;
  }
  Mirror mirror{argv[1], {}};
  for (int i = 3; i < argc; ++i) {
    const auto rule = rule_of(argv[i]);
    if (!rule) {
      std::fprintf(stderr, "faulty_fs: \"%s\" is no rule; see the top of faulty_fs.cc\n", argv[i]);
      return 2;
    }
    mirror.rules.push_back(*rule);
  }
  // In the foreground, one request at a time unless a rule says otherwise, for the tests' user and
  // no other.
  std::string options = "ro,fsname=faulty_fs";
  const bool is_parallel = std::any_of(mirror.rules.begin(), mirror.rules.end(),
                                       [](const Rule& rule) { return rule.fault == "parallel"; });
  std::array<char*, 6> arguments = {argv[0],
                                    argv[2],
                                    const_cast<char*>("-f"),
                                    const_cast<char*>("-o"),
                                    options.data(),
                                    const_cast<char*>("-s")};
  const int count = static_cast<int>(arguments.size()) - (is_parallel ? 1 : 0);
  const fuse_operations table = operations();
  return fuse_main(count, arguments.data(), &table, &mirror);
}
