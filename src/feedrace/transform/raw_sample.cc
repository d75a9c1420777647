// SPDX-License-Identifier: Apache-2.0
#include "feedrace/transform/raw_sample.h"

#include <optional>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "feedrace/core/text.h"
#include "feedrace/decode/npy_header.h"

namespace feedrace::transform {
namespace {

constexpr std::size_t kMaxExtents = 64;

std::string array_text(DType dtype, const std::vector<std::int64_t>& shape) {
  return fmt::format("{} [{}]", to_string(dtype), fmt::join(shape, ", "));
}

/// Bytes of an array; nothing where 64 bits do not hold them.
std::optional<std::uint64_t> bytes_of(DType dtype, const std::vector<std::int64_t>& shape) {
  std::uint64_t bytes = size_of(dtype);
  for (const std::int64_t extent : shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) {
      return std::nullopt;
    }
  }
  return bytes;
}

Failure wrong(const std::string& found) { return {ErrorCode::kCorruptData, found}; }

/// The numbers as the sample itself says it is made.
Result<RawValues> stated_values(const RawSamples& samples, std::span<const std::byte> front) {
  if (samples.form == RawSamples::Form::kPlain) return RawValues{samples, 0, 0};
  auto header = decode::read_npy_header(front);
  if (!header) return header.error();
  RawValues values{samples, header->values_at_bytes, 0};
  values.samples.dtype = header->dtype;
  values.samples.shape = std::move(header->shape);
  return values;
}

}  // namespace

Result<RawValues> find_raw_values(const RawSamples& samples, std::span<const std::byte> front,
                                  std::uint64_t size_bytes) {
  auto values = stated_values(samples, front);
  if (!values) return values;
  const DType dtype = *values->samples.dtype;
  const std::vector<std::int64_t>& shape = *values->samples.shape;
  const std::string text = array_text(dtype, shape);
  const bool fits =
      dtype == samples.dtype.value_or(dtype) && shape == samples.shape.value_or(shape);
  if (!fits) {
    return wrong(
        fmt::format("it is {}, and each sample must be {}; a batch has one dtype and shape", text,
                    array_text(samples.dtype.value_or(dtype), samples.shape.value_or(shape))));
  }
  const auto bytes = bytes_of(dtype, shape);
  if (!bytes)
    return wrong(fmt::format("it is {}, more than memory can hold; write it again", text));
  if (*bytes == 0) return wrong(fmt::format("it is {}, without any number; take it out", text));
  const std::uint64_t given = size_bytes - values->at_bytes;
  if (*bytes != given) {
    return wrong(fmt::format("{} has {} bytes, and the sample holds {}, {}; write it again", text,
                             *bytes, given,
                             given < *bytes ? "cut short" : "with others behind them"));
  }
  values->size_bytes = static_cast<std::size_t>(*bytes);
  return values;
}

std::size_t raw_bytes(const RawSamples& samples) {
  return static_cast<std::size_t>(*bytes_of(*samples.dtype, *samples.shape));
}

void check_raw(const RawSamples& samples) {
  const auto refuse = [](const std::string& message) {
    throw Error(ErrorCode::kInvalidArgument, "raw samples: " + message);
  };
  const bool is_known = samples.dtype && samples.shape;
  if (samples.form == RawSamples::Form::kPlain && !is_known) {
    refuse("numbers without a header need both dtype and shape; give them, or use .npy files");
  }
  if (!samples.shape) return;
  const std::vector<std::int64_t>& shape = *samples.shape;
  const std::string text = fmt::format("shape is [{}]", fmt::join(shape, ", "));
  if (shape.size() > kMaxExtents) {
    refuse(fmt::format("shape has {} extents; it may have {}", shape.size(), kMaxExtents));
  }
  for (const std::int64_t extent : shape) {
    if (extent < 1) refuse(text + "; every extent must be at least 1");
  }
  const auto bytes = bytes_of(samples.dtype.value_or(DType::kUint8), shape);
  if (!bytes || *bytes > kMaxRawBytes) {
    refuse(fmt::format("{}; a sample may have {}", text, human_bytes(kMaxRawBytes)));
  }
}

std::string raw_text(const RawSamples& samples) {
  std::string text = samples.form == RawSamples::Form::kNpy ? "raw .npy" : "raw";
  if (samples.dtype) text += fmt::format(" {}", to_string(*samples.dtype));
  if (samples.shape) text += fmt::format(" [{}]", fmt::join(*samples.shape, ", "));
  if (samples.dtype && samples.shape) return text;
  const bool is_open = !samples.dtype && !samples.shape;
  return text + (is_open ? ", as the first sample is" : ", else as the first sample is");
}

}  // namespace feedrace::transform
