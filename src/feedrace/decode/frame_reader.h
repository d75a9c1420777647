// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "feedrace/error.h"

struct LZ4F_dctx_s;
struct ZSTD_DCtx_s;

namespace feedrace::decode {

enum class FrameKind : std::uint8_t { kNone, kLz4, kZstd };

/// By the first four bytes.
FrameKind frame_kind(std::span<const std::byte> bytes) noexcept;
const char* to_string(FrameKind kind) noexcept;  ///< "LZ4", "Zstandard".

/// Unpacks one LZ4 or Zstandard frame from its begin, as far as it is asked to: what lies behind is
/// not looked at. One instance serves one thread, frame after frame, and keeps its memory.
class FrameReader {
 public:
  FrameReader();
  ~FrameReader();
  FrameReader(const FrameReader&) = delete;
  FrameReader& operator=(const FrameReader&) = delete;

  /// `encoded` begins with a frame and stays until the last `read`. A Zstandard frame that needs
  /// more than `max_memory_bytes` to be unpacked is refused. Failures: kCorruptData, kIo.
  Result<void> open(std::span<const std::byte> encoded, std::uint64_t max_memory_bytes);

  /// Unpacks the next bytes, all of `to` unless the frame ends before; how many it were. A frame
  /// that is cut or damaged is a Failure.
  Result<std::size_t> read(std::span<std::uint8_t> to);

  /// Behind the last byte that was wanted: the frame ends here, and nothing follows it. A checksum
  /// in it is compared.
  Result<void> finish();

  /// Memory of the libraries.
  std::size_t memory_bytes() const noexcept;

 private:
  struct FreeLz4 {
    void operator()(LZ4F_dctx_s* context) const noexcept;
  };
  struct FreeZstd {
    void operator()(ZSTD_DCtx_s* context) const noexcept;
  };

  Result<bool> step(std::span<std::uint8_t> to, std::size_t& done);
  Failure damage(const char* what) const;

  std::unique_ptr<LZ4F_dctx_s, FreeLz4> lz4_;
  std::unique_ptr<ZSTD_DCtx_s, FreeZstd> zstd_;
  FrameKind kind_ = FrameKind::kNone;
  std::span<const std::byte> encoded_;
  std::size_t taken_bytes_ = 0;
  std::size_t lz4_block_bytes_ = 0;  ///< Of the largest blocks that were met.
  bool is_at_end_ = false;
};

}  // namespace feedrace::decode
