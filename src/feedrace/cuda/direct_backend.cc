// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/direct_backend.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
#include <exception>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/alignment.h"
#include "feedrace/core/text.h"
#include "feedrace/storage/failures.h"

namespace feedrace::cuda {
namespace {

// What cuFile registers whole ones of.
constexpr std::size_t kPageBytes = 65536;

constexpr const char* kCopied =
    "cuFile copies through the host's memory (its compatibility mode), as there is no direct path "
    "from the file system to the GPU; see docs/gpudirect.md for what one needs";
constexpr const char* kUnknown =
    "cuFile does not tell by which path it reads (its version, or files below 4 KiB), so it is "
    "counted as its compatibility mode; see docs/gpudirect.md";

/// A file that cuFile knows. The descriptor outlives its registration.
class DirectFile final : public storage::File {
 public:
  static Result<std::unique_ptr<DirectFile>> open(std::shared_ptr<Direct> direct,
                                                  std::string_view uri) {
    auto file = std::unique_ptr<DirectFile>(new DirectFile(std::move(direct), uri));
    // A FIFO's writer is not waited for; of regular files the flag means nothing.
    constexpr int kFlags = O_RDONLY | O_DIRECT | O_CLOEXEC | O_NOCTTY | O_NONBLOCK;
    file->descriptor_ = host::FileDescriptor(::open(file->uri_.c_str(), kFlags));
    if (!file->descriptor_) {
      if (errno != EINVAL) return storage::open_failure(uri, "open", errno);
      return storage::named_failure(
          ErrorCode::kUnsupported, uri,
          "its file system has no O_DIRECT, which cuFile needs; take another backend");
    }
    struct stat about{};
    if (fstat(file->descriptor_.get(), &about) != 0) {
      return storage::open_failure(uri, "fstat", errno);
    }
    file->size_bytes_ = static_cast<std::uint64_t>(about.st_size);
    feedrace_cuda_error error{};
    const int status = file->direct_->table().open_file(
        file->direct_->handle(), file->descriptor_.get(), &file->file_, &error);
    if (status == FEEDRACE_CUDA_OK) return file;
    Failure failure = failure_of(status, error);
    failure.message = printable(uri) + ": " + failure.message;
    return failure;
  }
  ~DirectFile() override {
    if (file_ != nullptr) direct_->table().close_file(file_);
  }

  std::uint64_t size_bytes() const noexcept override { return size_bytes_; }
  const std::string& uri() const noexcept override { return uri_; }
  std::size_t alignment_bytes() const noexcept override { return DirectBackend::kBlockBytes; }
  feedrace_cuda_file* handle() const noexcept { return file_; }

 private:
  DirectFile(std::shared_ptr<Direct> direct, std::string_view uri)
      : direct_(std::move(direct)), uri_(uri) {}

  const std::shared_ptr<Direct> direct_;
  const std::string uri_;
  host::FileDescriptor descriptor_;
  std::uint64_t size_bytes_ = 0;
  feedrace_cuda_file* file_ = nullptr;
};

}  // namespace

Result<std::shared_ptr<Direct>> Direct::open(std::shared_ptr<Device> device,
                                             const DirectOptions& options) {
  feedrace_cuda_direct_options wanted{};
  wanted.allow_compatible = options.allow_compatible ? 1 : 0;
  if (!options.system_root.empty()) wanted.system_root = options.system_root.c_str();
  feedrace_cuda_direct* direct = nullptr;
  feedrace_cuda_error error{};
  const int status = device->table().open_direct(device->handle(), &wanted, &direct, &error);
  if (status != FEEDRACE_CUDA_OK) return failure_of(status, error);
  return std::shared_ptr<Direct>(new Direct(std::move(device), direct));
}

Direct::~Direct() { table().close_direct(direct_); }

DirectMemory::DirectMemory(std::shared_ptr<Direct> direct, std::size_t bytes)
    : direct_(std::move(direct)),
      memory_(direct_->device(), static_cast<std::size_t>(round_up(bytes, kPageBytes))) {
  feedrace_cuda_error error{};
  require(direct_->table().register_memory(direct_->handle(), memory_.address(),
                                           memory_.size_bytes(), &error),
          error);
}

// Before the memory goes, or nvidia-fs can deadlock.
DirectMemory::~DirectMemory() {
  direct_->table().unregister_memory(direct_->handle(), memory_.address());
}

std::span<std::byte> DirectMemory::bytes() const noexcept {
  return {reinterpret_cast<std::byte*>(memory_.address()), memory_.size_bytes()};
}

bool DirectMemory::holds(std::span<const std::byte> part) const noexcept {
  const auto begin = reinterpret_cast<std::uint64_t>(part.data());
  return begin >= memory_.address() && begin - memory_.address() <= memory_.size_bytes() &&
         part.size() <= memory_.size_bytes() - (begin - memory_.address());
}

DirectBackend::DirectBackend(std::shared_ptr<DirectMemory> memory, std::size_t queue_depth,
                             std::shared_ptr<storage::FallbackLog> log)
    : memory_(std::move(memory)),
      log_(std::move(log)),
      copied_(log_->counter(kCopied)),
      unknown_(log_->counter(kUnknown)),
      threads_(name(), queue_depth, 0,
               [this](const storage::ReadRequest& request, const storage::StopSign& stop) {
                 return read(request, stop);
               }) {}

Result<void> DirectBackend::register_memory(std::span<std::byte> memory) {
  if (memory_->holds(memory)) return {};
  return Failure{ErrorCode::kUnsupported,
                 "cufile: only the device memory that it was made for is registered; read into "
                 "that"};
}

Result<std::unique_ptr<storage::File>> DirectBackend::open(std::string_view uri) {
  auto opened = DirectFile::open(memory_->direct(), uri);
  if (!opened) return opened.error();
  return std::unique_ptr<storage::File>(*std::move(opened));
}

storage::Completion DirectBackend::read(const storage::ReadRequest& request,
                                        const storage::StopSign& stop) noexcept {
  storage::Completion done{request.user_data, std::size_t{0}, Path::kGdsCompat, 0};
  const std::string_view name = storage::name_of(request);
  if (stop.raised()) {
    done.bytes_read = storage::read_failure(name, request.offset_bytes, request.destination.size(),
                                            "cuFileRead", ECANCELED);
    return done;
  }
  std::unique_ptr<DirectFile> own;
  if (request.file == nullptr) {
    auto opened = DirectFile::open(memory_->direct(), request.path);
    if (!opened) {
      done.bytes_read = opened.error();
      return done;
    }
    own = *std::move(opened);
  }
  const auto* file = own ? own.get() : dynamic_cast<const DirectFile*>(request.file);
  if (file == nullptr) {
    done.bytes_read = storage::named_failure(ErrorCode::kInvalidArgument, name,
                                             "it was opened by another back end");
    return done;
  }
  done.path = path_of(file->handle());
  done.bytes_read = read_file(request, file->handle());
  return done;
}

Result<std::size_t> DirectBackend::read_file(const storage::ReadRequest& request,
                                             feedrace_cuda_file* file) {
  const std::string_view name = storage::name_of(request);
  if (!memory_->holds(request.destination)) {
    return storage::named_failure(ErrorCode::kInvalidArgument, name,
                                  "the destination is not in the memory that cuFile reads into");
  }
  const auto base = reinterpret_cast<std::uint64_t>(memory_->bytes().data());
  const auto at = reinterpret_cast<std::uint64_t>(request.destination.data()) - base;
  std::size_t bytes = 0;
  feedrace_cuda_error error{};
  const int status = memory_->direct()->table().read(file, base, request.destination.size(),
                                                     request.offset_bytes, at, &bytes, &error);
  if (status == FEEDRACE_CUDA_OK) return bytes;
  return failure_of(status, error);
}

/// What was not shown to be direct is not counted as direct.
Path DirectBackend::path_of(feedrace_cuda_file* file) {
  switch (memory_->direct()->table().path_of_file(file)) {
    case FEEDRACE_CUDA_PATH_DIRECT:
      return Path::kGds;
    case FEEDRACE_CUDA_PATH_COMPATIBLE:
      ++copied_;
      return Path::kGdsCompat;
    default:
      ++unknown_;
      return Path::kGdsCompat;
  }
}

}  // namespace feedrace::cuda
