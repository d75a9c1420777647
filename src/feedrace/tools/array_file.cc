// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/array_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <memory>

#include <fmt/format.h>
#include <spng.h>

#include "feedrace/core/text.h"
#include "feedrace/error.h"

namespace feedrace::tools {
namespace {

[[noreturn]] void refuse(const std::string& path, const std::string& reason) {
  throw Error(ErrorCode::kIo, fmt::format("{}: can't be written ({}); choose another place or free "
                                          "space",
                                          printable(path), reason));
}

bool write_all(int fd, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = write(fd, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return true;
}

bool is_special(const std::string& path) {
  return path.starts_with("/dev/");  // A device can't be renamed over.
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
  std::string temporary = is_special(path) ? path : path + ".tmp-XXXXXX";
  const int fd = is_special(path) ? open(path.c_str(), O_WRONLY | O_CLOEXEC)
                                  : mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) refuse(path, errno_text("open", errno));
  bool good = write_all(fd, head) && write_all(fd, body);
  int reason = errno;
  if (good && !is_special(path)) {
    const mode_t mask = umask(0);
    umask(mask);
    good = fchmod(fd, 0666 & ~mask) == 0;  // mkostemp makes it private.
    reason = errno;
  }
  if (close(fd) != 0 && good) {
    good = false;
    reason = errno;
  }
  if (good && !is_special(path) && rename(temporary.c_str(), path.c_str()) != 0) {
    good = false;
    reason = errno;
  }
  if (good) return;
  if (!is_special(path)) unlink(temporary.c_str());
  refuse(path, errno_text("write", reason));
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

void write_png(const std::string& path, const std::uint8_t* rgb, std::uint32_t width_px,
               std::uint32_t height_px) {
  const std::unique_ptr<spng_ctx, void (*)(spng_ctx*)> encoder(spng_ctx_new(SPNG_CTX_ENCODER),
                                                               &spng_ctx_free);
  if (!encoder) refuse(path, "out of memory");
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
  if (!png) refuse(path, spng_strerror(status));
  write_whole(path, {}, {static_cast<const std::byte*>(png.get()), size});
}

}  // namespace feedrace::tools
