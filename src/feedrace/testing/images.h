// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>

namespace feedrace::testing {

/// A JPEG of smooth colours and some detail, different for each `seed`; quality 90, 4:2:0.
std::string make_jpeg(std::uint32_t width_px, std::uint32_t height_px, std::uint32_t seed,
                      int quality = 90);

/// One member of a tar: a ustar header, `content`, padding to 512 bytes. `name` under 100 bytes.
std::string tar_member(const std::string& name, const std::string& content);
/// Two blocks of zeros.
std::string tar_end();

}  // namespace feedrace::testing
