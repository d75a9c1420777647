// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace feedrace::formats {

/// Things left out or odd, gathered by kind, so that a million of them are still one line.
class Findings {
 public:
  /// Names kept of each kind; the rest is only counted.
  static constexpr std::size_t kNamesKept = 5;

  struct Kind {
    std::string what;  ///< "link members left out, as they have no data of their own".
    std::uint64_t count = 0;
    std::vector<std::string> names;  ///< The first ones, raw.
  };

  void add(std::string_view what, std::string_view name, std::uint64_t count = 1);
  /// Adds those of `other`, each name behind `prefix` and a blank.
  void merge(const Findings& other, std::string_view prefix = {});

  void add_kind(Kind kind) { kinds_.push_back(std::move(kind)); }
  const std::vector<Kind>& kinds() const noexcept { return kinds_; }
  bool empty() const noexcept { return kinds_.empty(); }
  /// One line a kind: "PLACE: WHAT: NAME, NAME (7 in all)".
  std::vector<std::string> lines(std::string_view place) const;

 private:
  Kind& kind_of(std::string_view what);

  std::vector<Kind> kinds_;
};

}  // namespace feedrace::formats
