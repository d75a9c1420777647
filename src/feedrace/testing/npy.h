// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include <fmt/format.h>

namespace feedrace::testing {

/// A .npy array as numpy.save writes it, of these bytes; `shape` is the inside of the tuple: "3,
/// 4", "3,".
inline std::string npy(std::string_view descr, std::string_view shape, std::string_view values) {
  constexpr std::size_t kAlignment = 64;
  constexpr std::size_t kPreludeBytes = 10;
  std::string dictionary =
      fmt::format("{{'descr': '{}', 'fortran_order': False, 'shape': ({}), }}", descr, shape);
  while ((kPreludeBytes + dictionary.size() + 1) % kAlignment != 0) dictionary += ' ';
  dictionary += '\n';
  std::string array("\x93NUMPY\x01\x00", 8);
  array += static_cast<char>(dictionary.size() & 0xff);
  array += static_cast<char>(dictionary.size() >> 8U);
  return array.append(dictionary).append(values);
}

}  // namespace feedrace::testing
