// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/frame_reader.h"

#include <lz4frame.h>
#include <zstd.h>

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/decode/bytes.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {
namespace {

constexpr std::uint32_t kLz4Magic = 0x184d2204;
/// The smallest window that the library can be bound to (10) and the largest it takes unasked.
constexpr int kLeastWindowLog = 10;
constexpr int kMostWindowLog = 27;

Failure no_memory(FrameKind kind) {
  return {ErrorCode::kIo,
          fmt::format("{} data: no memory; use fewer decode threads", to_string(kind))};
}

/// The largest window that leaves room for the library's own buffers beside it.
int window_log_for(std::uint64_t max_memory_bytes) noexcept {
  int log = kLeastWindowLog;
  while (log < kMostWindowLog && (std::uint64_t{4} << log) <= max_memory_bytes) ++log;
  return log;
}

/// LZ4's blocks are unpacked one by one; the library keeps two of them and 64 KiB before.
std::size_t block_bytes(LZ4F_blockSizeID_t id) noexcept {
  switch (id) {
    case LZ4F_max256KB:
      return std::size_t{256} << 10;
    case LZ4F_max1MB:
      return std::size_t{1} << 20;
    case LZ4F_max4MB:
      return std::size_t{4} << 20;
    default:
      return std::size_t{64} << 10;
  }
}

}  // namespace

FrameKind frame_kind(std::span<const std::byte> bytes) noexcept {
  if (bytes.size() < 4) return FrameKind::kNone;
  const std::uint32_t magic = little32(bytes, 0);
  if (magic == kLz4Magic) return FrameKind::kLz4;
  return magic == ZSTD_MAGICNUMBER ? FrameKind::kZstd : FrameKind::kNone;
}

const char* to_string(FrameKind kind) noexcept {
  if (kind == FrameKind::kLz4) return "LZ4";
  return kind == FrameKind::kZstd ? "Zstandard" : "uncompressed";
}

void FrameReader::FreeLz4::operator()(LZ4F_dctx_s* context) const noexcept {
  LZ4F_freeDecompressionContext(context);
}

void FrameReader::FreeZstd::operator()(ZSTD_DCtx_s* context) const noexcept {
  ZSTD_freeDCtx(context);
}

FrameReader::FrameReader() = default;
FrameReader::~FrameReader() = default;

Failure FrameReader::damage(const char* what) const {
  return corrupt(fmt::format("corrupt {} data before byte {} of {}: {}", to_string(kind_),
                             taken_bytes_, encoded_.size(), what));
}

Result<void> FrameReader::open(std::span<const std::byte> encoded, std::uint64_t max_memory_bytes) {
  kind_ = frame_kind(encoded);
  encoded_ = encoded;
  taken_bytes_ = 0;
  is_at_end_ = false;
  if (kind_ == FrameKind::kLz4) {
    if (!lz4_) {
      LZ4F_dctx* made = nullptr;
      if (LZ4F_isError(LZ4F_createDecompressionContext(&made, LZ4F_VERSION)) != 0) {
        return no_memory(kind_);
      }
      lz4_.reset(made);
    }
    LZ4F_resetDecompressionContext(lz4_.get());
    LZ4F_frameInfo_t info{};
    std::size_t size = encoded.size();
    const std::size_t hint = LZ4F_getFrameInfo(lz4_.get(), &info, encoded.data(), &size);
    if (LZ4F_isError(hint) != 0) return damage(LZ4F_getErrorName(hint));
    taken_bytes_ = size;
    lz4_block_bytes_ = std::max(lz4_block_bytes_, block_bytes(info.blockSizeID));
    return {};
  }
  if (kind_ == FrameKind::kZstd) {
    if (!zstd_) zstd_.reset(ZSTD_createDCtx());
    if (!zstd_) return no_memory(kind_);
    ZSTD_DCtx_reset(zstd_.get(), ZSTD_reset_session_only);
    ZSTD_DCtx_setParameter(zstd_.get(), ZSTD_d_windowLogMax, window_log_for(max_memory_bytes));
    return {};
  }
  return Failure{ErrorCode::kInvalidArgument, "neither an LZ4 nor a Zstandard frame"};
}

/// One call of the library, which takes input and gives output as it likes; whether it got on.
Result<bool> FrameReader::step(std::span<std::uint8_t> to, std::size_t& done) {
  const std::size_t taken_before = taken_bytes_;
  const std::size_t done_before = done;
  const std::span<const std::byte> rest = encoded_.subspan(taken_bytes_);
  if (kind_ == FrameKind::kLz4) {
    std::size_t in = rest.size();
    std::size_t out = to.size() - done;
    // Not "stable": the caller's memory may be another one at the next call.
    const std::size_t hint =
        LZ4F_decompress(lz4_.get(), to.data() + done, &out, rest.data(), &in, nullptr);
    taken_bytes_ += in;
    done += out;
    if (LZ4F_isError(hint) != 0) return damage(LZ4F_getErrorName(hint));
    is_at_end_ = hint == 0;
  } else {
    ZSTD_inBuffer in{rest.data(), rest.size(), 0};
    ZSTD_outBuffer out{to.data(), to.size(), done};
    const std::size_t hint = ZSTD_decompressStream(zstd_.get(), &out, &in);
    taken_bytes_ += in.pos;
    done = out.pos;
    if (ZSTD_isError(hint) != 0) return damage(ZSTD_getErrorName(hint));
    is_at_end_ = hint == 0;
  }
  return taken_bytes_ != taken_before || done != done_before;
}

Result<std::size_t> FrameReader::read(std::span<std::uint8_t> to) {
  std::size_t done = 0;
  while (done < to.size() && !is_at_end_) {
    const Result<bool> moved = step(to, done);
    if (!moved) return moved.error();
    if (!*moved && !is_at_end_) {
      return corrupt(fmt::format("truncated {} data: it ends after {} bytes", to_string(kind_),
                                 encoded_.size()));
    }
  }
  return done;
}

Result<void> FrameReader::finish() {
  std::array<std::uint8_t, 1> more{};
  const Result<std::size_t> read_more = read(more);
  if (!read_more) return read_more.error();
  if (*read_more != 0) return damage("it holds more than the array that it begins with");
  if (taken_bytes_ != encoded_.size()) {
    return damage("other bytes lie behind the frame");
  }
  return {};
}

std::size_t FrameReader::memory_bytes() const noexcept {
  return (zstd_ ? ZSTD_sizeof_DCtx(zstd_.get()) : 0) + (lz4_ ? 2 * lz4_block_bytes_ : 0);
}

}  // namespace feedrace::decode
