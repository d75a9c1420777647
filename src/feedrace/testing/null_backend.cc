// SPDX-License-Identifier: Apache-2.0
#include "feedrace/testing/null_backend.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <string>
#include <utility>

#include "feedrace/random.h"
#include "feedrace/storage/clock.h"

namespace feedrace::testing {
namespace {

// A prime: no page, sector or power of two divides it, so a read from a wrong offset shows.
constexpr std::size_t kPeriodBytes = 65'521;

using Pattern = std::array<std::byte, kPeriodBytes>;

Pattern make_pattern() {
  Pattern pattern;
  SampleRandom random(0, 0, 0, 0);
  for (std::byte& byte : pattern) byte = static_cast<std::byte>(random.next());
  return pattern;
}

const Pattern& pattern() {
  static const Pattern kPattern = make_pattern();
  return kPattern;
}

class NullFile final : public storage::File {
 public:
  NullFile(std::uint64_t size_bytes, std::string uri)
      : size_bytes_(size_bytes), uri_(std::move(uri)) {}
  std::uint64_t size_bytes() const noexcept override { return size_bytes_; }
  const std::string& uri() const noexcept override { return uri_; }

 private:
  std::uint64_t size_bytes_;
  std::string uri_;
};

}  // namespace

NullBackend::NullBackend(std::uint64_t file_bytes, std::size_t queue_depth)
    : file_bytes_(file_bytes), queue_depth_(queue_depth), ready_(queue_depth) {}

std::byte NullBackend::byte_at(std::uint64_t offset_bytes) noexcept {
  return pattern()[static_cast<std::size_t>(offset_bytes % kPeriodBytes)];
}

void NullBackend::fill(std::span<std::byte> destination, std::uint64_t offset_bytes) noexcept {
  while (!destination.empty()) {
    const auto at = static_cast<std::size_t>(offset_bytes % kPeriodBytes);
    const std::size_t count = std::min(destination.size(), kPeriodBytes - at);
    std::memcpy(destination.data(), pattern().data() + at, count);
    destination = destination.subspan(count);
    offset_bytes += count;
  }
}

Result<void> NullBackend::register_memory(std::span<std::byte> /*memory*/) { return {}; }

Result<std::unique_ptr<storage::File>> NullBackend::open(std::string_view uri) {
  return std::unique_ptr<storage::File>(std::make_unique<NullFile>(file_bytes_, std::string(uri)));
}

std::size_t NullBackend::submit(std::span<const storage::ReadRequest> requests) noexcept {
  const std::size_t taken = std::min(requests.size(), queue_depth_ - ready_.size());
  for (const storage::ReadRequest& request : requests.first(taken)) {
    const std::uint64_t start_ns = storage::now_ns();
    const std::uint64_t rest = file_bytes_ - std::min(file_bytes_, request.offset_bytes);
    const auto count =
        static_cast<std::size_t>(std::min<std::uint64_t>(rest, request.destination.size()));
    fill(request.destination.first(count), request.offset_bytes);
    ready_.push({request.user_data, count, Path::kMemory, storage::now_ns() - start_ns});
  }
  return taken;
}

std::size_t NullBackend::wait(std::span<storage::Completion> out,
                              std::size_t /*min_count*/) noexcept {
  const std::size_t count = std::min(out.size(), ready_.size());
  for (storage::Completion& completion : out.first(count)) completion = ready_.pop();
  return count;
}

}  // namespace feedrace::testing
