// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace feedrace::view {

/// Text for HTML and XML, also inside of quoted attributes. Bytes that are no text are shown as
/// `printable` does.
std::string escaped(std::string_view text);

/// A chart of several lines over the seconds of a run.
struct LineChart {
  struct Line {
    std::string name;
    std::string css_class;  ///< Its colour: "s1".
    std::vector<double> values;
  };
  std::string title;  ///< For who can't see it.
  std::string unit;   ///< Of the values: "images/s", "%".
  std::vector<double> seconds;
  std::vector<Line> lines;
  double highest = 0;  ///< Of the axis; 0: by the values.
  bool is_area = false;
};
std::string to_svg(const LineChart& chart);

/// Bars side by side.
struct BarChart {
  std::string title;
  std::string unit;
  std::vector<std::string> names;
  std::vector<double> values;
};
std::string to_svg(const BarChart& chart);

/// 1, 2 or 5 times a power of ten, so that about four of them make `highest`.
double axis_step(double highest);

}  // namespace feedrace::view
