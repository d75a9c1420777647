// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/html.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>

#include <fmt/format.h>

#include "feedrace/core/text.h"

namespace feedrace::view {
namespace {

// In the units of the drawing, which the page scales to its own width.
constexpr double kWidth = 640;
constexpr double kHeight = 232;
constexpr double kLeft = 64;
constexpr double kRight = 12;
constexpr double kTop = 30;
constexpr double kBottom = 34;
constexpr double kPlotWidth = kWidth - kLeft - kRight;
constexpr double kPlotHeight = kHeight - kTop - kBottom;
// More names below an axis would overlap.
constexpr std::size_t kMostNames = 8;

double highest_of(const std::vector<double>& values) {
  return values.empty() ? 0 : *std::max_element(values.begin(), values.end());
}

std::string number_text(double value) {
  if (value >= 1000) return with_commas(static_cast<std::uint64_t>(value + 0.5));
  return fmt::format("{:.4g}", value);
}

/// As short as there is room for beside an axis, in letters for a phone: "1,500", "15k", "2.5M".
std::string tick_text(double value) {
  if (value >= 1e6) return fmt::format("{:.4g}M", value * 1e-6);
  if (value >= 1e4) return fmt::format("{:.4g}k", value * 1e-3);
  return number_text(value);
}

void open_svg(std::string& out, const std::string& title) {
  fmt::format_to(std::back_inserter(out),
                 "<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\"><title>{}</title>",
                 kWidth, kHeight, escaped(title), escaped(title));
}

double y_of(double value, double highest) {
  return kTop + kPlotHeight * (1 - std::clamp(value / highest, 0.0, 1.0));
}

/// Multiples of `step`, from 0 to `last`, which may be rounded.
std::vector<double> ticks(double last, double step) {
  std::vector<double> at(static_cast<std::size_t>(last / step + 1e-3) + 1);
  for (std::size_t i = 0; i < at.size(); ++i) at[i] = step * static_cast<double>(i);
  return at;
}

/// Lines and numbers of the values' axis.
void draw_scale(std::string& out, double highest, double step, const std::string& unit) {
  auto to = std::back_inserter(out);
  for (const double value : ticks(highest, step)) {
    const double y = y_of(value, highest);
    fmt::format_to(to,
                   "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/>"
                   "<text class=\"tick\" text-anchor=\"end\" x=\"{}\" y=\"{:.1f}\">{}</text>",
                   kLeft, kWidth - kRight, y, y, kLeft - 6, y + 3.5, tick_text(value));
  }
  fmt::format_to(to, "<text class=\"tick\" x=\"{}\" y=\"22\">{}</text>", kLeft, escaped(unit));
}

void draw_seconds(std::string& out, double last) {
  auto to = std::back_inserter(out);
  for (const double at : ticks(last, axis_step(last))) {
    // On a phone words are larger: beside its middle one at the right end would be cut off.
    const double x = kLeft + kPlotWidth * at / last;
    const char* anchor = x > kLeft + 0.95 * kPlotWidth ? "end" : "middle";
    fmt::format_to(to, "<text class=\"tick\" text-anchor=\"{}\" x=\"{:.1f}\" y=\"{}\">{} s</text>",
                   anchor, x, kHeight - 10, number_text(at));
  }
}

std::string points_of(const std::vector<double>& seconds, const std::vector<double>& values,
                      double last, double highest) {
  std::string points;
  for (std::size_t i = 0; i < std::min(seconds.size(), values.size()); ++i) {
    points += fmt::format("{}{:.1f},{:.1f}", i == 0 ? "" : " ",
                          kLeft + kPlotWidth * seconds[i] / last, y_of(values[i], highest));
  }
  return points;
}

}  // namespace

std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : printable(text)) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

double axis_step(double highest) {
  if (!(highest > 0)) return 1;
  const double rough = highest / 4;
  const double power = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (rough <= factor * power * 1.0001) return factor * power;
  }
  return 10 * power;
}

std::string to_svg(const LineChart& chart) {
  double highest = chart.highest;
  for (const LineChart::Line& line : chart.lines) {
    if (chart.highest == 0) highest = std::max(highest, highest_of(line.values));
  }
  if (!(highest > 0)) highest = 1;
  const double step = axis_step(highest);
  if (chart.highest == 0) highest = step * std::ceil(highest / step);
  const double last = chart.seconds.empty() ? 1 : std::max(chart.seconds.back(), 1e-3);
  std::string out;
  open_svg(out, chart.title);
  draw_scale(out, highest, step, chart.unit);
  draw_seconds(out, last);
  for (const LineChart::Line& line : chart.lines) {
    const std::string points = points_of(chart.seconds, line.values, last, highest);
    if (chart.is_area && !chart.seconds.empty()) {
      out += fmt::format("<polygon class=\"area {}\" points=\"{:.1f},{:.1f} {} {:.1f},{:.1f}\"/>",
                         line.css_class, kLeft + kPlotWidth * chart.seconds.front() / last,
                         kTop + kPlotHeight, points, kLeft + kPlotWidth, kTop + kPlotHeight);
    }
    out += fmt::format("<polyline class=\"line {}\" points=\"{}\"><title>{}</title></polyline>",
                       line.css_class, points, escaped(line.name));
  }
  return out + "</svg>";
}

std::string to_svg(const BarChart& chart) {
  const double most = std::max(highest_of(chart.values), 1e-9);
  const double step = axis_step(most);
  const double highest = step * std::ceil(most / step);
  std::string out;
  open_svg(out, chart.title);
  draw_scale(out, highest, step, chart.unit);
  const auto count = std::max<std::size_t>(1, chart.values.size());
  const double slot = kPlotWidth / static_cast<double>(count);
  const std::size_t each_nth = (count + kMostNames - 1) / kMostNames;
  for (std::size_t i = 0; i < chart.values.size(); ++i) {
    const double x = kLeft + slot * static_cast<double>(i);
    const double y = y_of(chart.values[i], highest);
    const std::string& name = chart.names.at(i);
    out += fmt::format(
        "<rect class=\"bar s1\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\" "
        "rx=\"2\">"
        "<title>{}: {} {}</title></rect>",
        x + slot * 0.1, y, slot * 0.8, kTop + kPlotHeight - y, escaped(name),
        number_text(chart.values[i]), escaped(chart.unit));
    if (i % each_nth != 0) continue;
    // Letters are larger on a phone, and names then half as many.
    out += fmt::format(
        "<text class=\"tick{}\" text-anchor=\"middle\" x=\"{:.1f}\" y=\"{}\">{}</text>",
        i / each_nth % 2 == 0 ? "" : " more", x + slot / 2, kHeight - 10, escaped(name));
  }
  return out + "</svg>";
}

}  // namespace feedrace::view
