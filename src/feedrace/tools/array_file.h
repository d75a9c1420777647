// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "feedrace/tensor.h"

namespace feedrace::tools {

/// Writes an array as numpy's .npy (version 1.0, C order). The file appears whole or not at all.
/// Throws Error kIo.
void write_npy(const std::string& path, const Tensor& tensor);

/// 8-bit RGB pixels, rows one after another, as the bytes of a PNG file. Throws Error kIo.
std::string png_of(const std::uint8_t* rgb, std::uint32_t width_px, std::uint32_t height_px);

/// Writes 8-bit RGB pixels, rows one after another, as PNG. The file appears whole or not at all.
/// Throws Error kIo.
void write_png(const std::string& path, const std::uint8_t* rgb, std::uint32_t width_px,
               std::uint32_t height_px);

/// Writes all bytes by a `PendingFile`. Throws Error kIo.
void write_whole(const std::string& path, std::span<const std::byte> head,
                 std::span<const std::byte> body);

}  // namespace feedrace::tools
