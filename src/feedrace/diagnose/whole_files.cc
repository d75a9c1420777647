// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/whole_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <random>
#include <span>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/alignment.h"
#include "feedrace/core/buffer_pool.h"
#include "feedrace/core/text.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/host/page_cache.h"
#include "feedrace/storage/failures.h"

namespace feedrace::diagnose {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kMaxFileBytes = 16 << 20;
constexpr std::size_t kCheckedFiles = 64;

/// Keeps `queue_depth` whole-file reads in flight.
class FilesReader {
 public:
  FilesReader(std::unique_ptr<storage::Backend> backend, const FilesJob& job)
      : job_(job),
        buffer_bytes_(
            static_cast<std::size_t>(round_up(job.max_file_bytes + 1, HostMemory::kPageBytes))),
        memory_(job.queue_depth * buffer_bytes_),
        ready_(job.queue_depth),
        done_(job.queue_depth),
        backend_(std::move(backend)) {
    memory_.touch();
    // Where it can't be pinned reads take the same path.
    [[maybe_unused]] const auto pinned = backend_->register_memory(memory_.bytes());
  }

  /// Reads the first `count` files; `use` gets the number of each and its bytes.
  template <typename Use>
  Result<ReadCounts> read(std::size_t count, Use use) {
    ReadCounts counts;
    const std::uint64_t calls_before = backend_->system_calls();
    std::optional<Failure> failure;
    std::vector<std::size_t> file_in(job_.queue_depth);
    std::size_t next = 0;
    std::size_t ready = 0;
    std::size_t in_flight = 0;
    const auto aim = [&](std::size_t slot) {
      file_in[slot] = next;
      ready_[ready++] = {nullptr, job_.paths[next++].c_str(), 0, buffer(slot), slot};
    };
    while (ready < job_.queue_depth && next < count) aim(ready);
    while (ready + in_flight > 0) {
      in_flight += backend_->submit(std::span(ready_).first(ready));
      ready = 0;
      const std::size_t done = backend_->wait(done_, 1);
      in_flight -= done;
      for (const storage::Completion& each : std::span(done_).first(done)) {
        const auto slot = static_cast<std::size_t>(each.user_data);
        if (!each.bytes_read) {
          if (!failure) failure = each.bytes_read.error();
        } else {
          counts.add(each);
          if (auto used = use(file_in[slot], buffer(slot).first(*each.bytes_read)); !used) {
            if (!failure) failure = used.error();
          }
        }
        if (!failure && next < count) aim(slot);
      }
    }
    if (failure) return *failure;
    counts.system_calls = backend_->system_calls() - calls_before;
    return counts;
  }

 private:
  std::span<std::byte> buffer(std::size_t slot) const noexcept {
    return memory_.bytes().subspan(slot * buffer_bytes_, buffer_bytes_);
  }
  const FilesJob& job_;
  const std::size_t buffer_bytes_;
  const HostMemory memory_;
  std::vector<storage::ReadRequest> ready_;
  std::vector<storage::Completion> done_;
  std::unique_ptr<storage::Backend> backend_;  // Last: gone before its memory.
};

Result<void> prepare(const FilesJob& job, bool is_cold) {
  // Dirty pages would stay.
  if (is_cold) sync();
  std::vector<std::byte> bytes(is_cold ? 0 : kMaxFileBytes);
  for (const std::string& path : job.paths) {
    const host::FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    if (!fd) return storage::open_failure(path, "open", errno);
    if (is_cold) {
      if (auto dropped = host::drop_pages(fd.get(), 0, 0); !dropped) return dropped;
    } else if (pread(fd.get(), bytes.data(), bytes.size(), 0) < 0) {
      return storage::read_failure(path, 0, bytes.size(), "pread", errno);
    }
  }
  return {};
}

Result<void> compare(const std::string& path, std::span<const std::byte> bytes) {
  std::vector<std::byte> expected(bytes.size() + 1);
  const host::FileDescriptor fd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) return storage::open_failure(path, "open", errno);
  const ssize_t count = pread(fd.get(), expected.data(), expected.size(), 0);
  const bool is_equal = count == static_cast<ssize_t>(bytes.size()) &&
                        std::memcmp(expected.data(), bytes.data(), bytes.size()) == 0;
  if (is_equal) return {};
  return storage::named_failure(ErrorCode::kCorruptData, path,
                                "the bytes differ from what pread gives; report this as a bug");
}

Path path_of(storage::Access access) {
  return access == storage::Access::kDirect ? Path::kDirect : Path::kPageCache;
}

}  // namespace

FilesJob collect_whole_files(const std::vector<std::string>& folders, std::size_t limit_count) {
  FilesJob job;
  std::vector<std::pair<std::string, std::uint64_t>> found;
  for (const std::string& folder : folders) {
    std::error_code error;
    fs::recursive_directory_iterator entries(folder, fs::directory_options::skip_permission_denied,
                                             error);
    for (; !error && entries != fs::recursive_directory_iterator(); entries.increment(error)) {
      std::error_code unknown;                          // A file that goes away meanwhile is none.
      if (entries->path().extension() == ".frindex") {  // Ours, not data.
        entries.disable_recursion_pending();
        continue;
      }
      if (!entries->is_regular_file(unknown)) continue;
      const std::uint64_t size = entries->file_size(unknown);
      if (!unknown && size > 0 && size <= kMaxFileBytes) found.emplace_back(entries->path(), size);
    }
    if (error) raise(storage::open_failure(folder, "opendir", error.value()));
  }
  if (found.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: holds no file of 1 byte to 16 MiB; name a folder of small files",
                            folders.empty() ? "no folder" : printable(folders.front())));
  }
  std::sort(found.begin(), found.end());
  std::shuffle(found.begin(), found.end(), std::mt19937_64(job.seed));
  found.resize(std::min(found.size(), limit_count));
  for (auto& [path, size] : found) {
    job.paths.push_back(std::move(path));
    job.size_bytes += size;
    job.max_file_bytes = std::max(job.max_file_bytes, size);
  }
  return job;
}

std::vector<FilesWay> files_ways() {
  using storage::Access;
  using storage::Engine;
  return {{"threads", Engine::kThreads, Access::kPageCache},
          {"threads+direct", Engine::kThreads, Access::kDirect},
          {"uring", Engine::kUring, Access::kPageCache},
          {"uring+direct", Engine::kUring, Access::kDirect}};
}

Result<IoRun> measure_files(const FilesWay& way, const FilesJob& job, bool is_cold, bool checks) {
  storage::BackendOptions options;
  options.queue_depth = job.queue_depth;
  options.thread_count = job.thread_count;
  options.access = way.access;
  options.log = std::make_shared<storage::FallbackLog>();
  auto backend = storage::create_backend(way.engine, options);
  if (!backend) return backend.error();
  FilesReader reader(*std::move(backend), job);
  if (checks) {
    const auto checked = reader.read(std::min(job.paths.size(), kCheckedFiles),
                                     [&](std::size_t file, std::span<const std::byte> bytes) {
                                       return compare(job.paths[file], bytes);
                                     });
    if (!checked) return checked.error();
  }
  if (auto ready = prepare(job, is_cold); !ready) return ready.error();
  auto run = run_timed([&] {
    return reader.read(job.paths.size(),
                       [](std::size_t, std::span<const std::byte>) { return Result<void>(); });
  });
  if (!run) return run.error();
  const std::uint64_t on_way =
      run->counts.bytes_by_path[static_cast<std::size_t>(path_of(way.access))];
  if (on_way != run->counts.bytes) {
    const auto fallbacks = options.log->counts();
    return Failure{ErrorCode::kUnsupported,
                   fallbacks.empty() ? "bytes took another path" : fallbacks.front().sentence};
  }
  return *std::move(run);
}

}  // namespace feedrace::diagnose
