// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/array_file.h"

#include <stdlib.h>

#include <memory>
#include <string_view>

#include <fmt/format.h>
#include <spng.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/formats/pending_file.h"

namespace feedrace::tools {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::kIo, fmt::format("{}: can't be written ({}); choose another place or free "
                                          "space",
                                          printable(path), reason));
}

const char* numpy_name(DType dtype) {
  switch (dtype) {
    case DType::kUint8:
      return "|u1";
    case DType::kFloat16:
      return "<f2";
    case DType::kFloat32:
      return "<f4";
    case DType::kInt64:
      return "<i8";
  }
  return "";
}

}  // namespace

void write_whole(const std::string& path, std::span<const std::byte> head,
                 std::span<const std::byte> body) {
  Result<formats::PendingFile> file = formats::PendingFile::create(path);
  if (!file) raise(file.error());
  for (const std::span<const std::byte> part : {head, body}) {
    const std::string_view bytes(reinterpret_cast<const char*>(part.data()), part.size());
    if (const Result<void> put = file->append(bytes); !put) raise(put.error());
  }
  if (const Result<void> put = file->publish(); !put) raise(put.error());
}

void write_npy(const std::string& path, const Tensor& tensor) {
  constexpr std::size_t kPreambleBytes = 10;  // Magic, version, length.
  constexpr std::size_t kAlignment = 64;
  std::string shape;
  for (const std::int64_t extent : tensor.shape) shape += fmt::format("{}, ", extent);
  std::string header = fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}",
                                   numpy_name(tensor.dtype), shape);
  const std::size_t unpadded = kPreambleBytes + header.size() + 1;
  header += std::string((kAlignment - unpadded % kAlignment) % kAlignment, ' ') + '\n';
  std::string head("\x93NUMPY\x01\x00", 8);
  head += static_cast<char>(header.size() & 0xff);
  head += static_cast<char>(header.size() >> 8);
  head += header;
  write_whole(path, std::as_bytes(std::span(head)),
              {static_cast<const std::byte*>(tensor.data), tensor.size_bytes()});
}

std::string png_of(const std::uint8_t* rgb, std::uint32_t width_px, std::uint32_t height_px) {
  const auto refuse_picture = [&](const char* why) {
    refuse(fmt::format("a PNG of {} x {} pixels", width_px, height_px), why);
  };
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> encoder(spng_ctx_new(SPNG_CTX_ENCODER),
                                                               &spng_ctx_free);
  if (!encoder) refuse_picture("out of memory");
  spng_ihdr header{};
  header.width = width_px;
  header.height = height_px;
  header.bit_depth = 8;
  header.color_type = SPNG_COLOR_TYPE_TRUECOLOR;
  spng_set_option(encoder.get(), SPNG_ENCODE_TO_BUFFER, 1);
  spng_set_ihdr(encoder.get(), &header);
  const std::size_t bytes = std::size_t{3} * width_px * height_px;
  int status = spng_encode_image(encoder.get(), rgb, bytes, SPNG_FMT_PNG, SPNG_ENCODE_FINALIZE);
  std::size_t size = 0;
  const std::unique_ptr<void, void (*)(void*)> png(
      spng_get_png_buffer(encoder.get(), &size, &status), &free);
  if (!png) refuse_picture(spng_strerror(status));
  return {static_cast<const char*>(png.get()), size};
}

void write_png(const std::string& path, const std::uint8_t* rgb, std::uint32_t width_px,
               std::uint32_t height_px) {
  const std::string png = png_of(rgb, width_px, height_px);
  write_whole(path, {}, std::as_bytes(std::span(png)));
}

}  // namespace feedrace::tools
