// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "feedrace/backend.h"
#include "feedrace/storage/fixed_queue.h"

namespace feedrace::testing {

/// Reads nothing: every name is a file of `file_bytes` made-up bytes, there at once. Shows what the
/// loader itself costs.
class NullBackend final : public storage::Backend {
 public:
  explicit NullBackend(std::uint64_t file_bytes = std::uint64_t{1} << 20,
                       std::size_t queue_depth = 32);

  /// The byte at `offset_bytes` of every file.
  static std::byte byte_at(std::uint64_t offset_bytes) noexcept;
  /// The bytes from `offset_bytes` on.
  static void fill(std::span<std::byte> destination, std::uint64_t offset_bytes) noexcept;

  std::string_view name() const noexcept override { return "null"; }
  Limits limits() const noexcept override { return {1, queue_depth_}; }
  Result<void> register_memory(std::span<std::byte> memory) override;
  Result<std::unique_ptr<storage::File>> open(std::string_view uri) override;
  std::size_t submit(std::span<const storage::ReadRequest> requests) noexcept override;
  std::size_t wait(std::span<storage::Completion> out, std::size_t min_count) noexcept override;
  void cancel_all() noexcept override {}
  void interrupt() noexcept override {}  // No wait is longer than a copy.

 private:
  const std::uint64_t file_bytes_;
  const std::size_t queue_depth_;
  storage::FixedQueue<storage::Completion> ready_;
};

}  // namespace feedrace::testing
