// SPDX-License-Identifier: Apache-2.0
#include "feedrace/view/html.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::view {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(Escaped, LeavesNothingThatAPageObeys) {
  EXPECT_EQ(escaped("<a href=\"x\">&</a>"), "&lt;a href=&quot;x&quot;&gt;&amp;&lt;/a&gt;");
  EXPECT_EQ(escaped("a\nb\xff"), "a\\x0ab\\xff");
  EXPECT_EQ(escaped("≤ 5 µs"), "≤ 5 µs");
}

TEST(AxisStep, IsRound) {
  EXPECT_DOUBLE_EQ(axis_step(100), 50);
  EXPECT_DOUBLE_EQ(axis_step(80), 20);
  EXPECT_DOUBLE_EQ(axis_step(4000), 1000);
  EXPECT_DOUBLE_EQ(axis_step(0.3), 0.1);
  EXPECT_DOUBLE_EQ(axis_step(0), 1);
}

TEST(LineChart, OfNothingIsAChart) {
  EXPECT_THAT(to_svg(LineChart{"t", "u", {}, {{"a", "s1", {}}}, 0, true}), HasSubstr("</svg>"));
}

TEST(LineChart, StaysInsideItsFrame) {
  const LineChart chart{"t", "%", {1, 2}, {{"a", "s1", {50, 500}}}, 100, false};
  const std::string svg = to_svg(chart);
  EXPECT_THAT(svg, HasSubstr("346.0,114.0 628.0,30.0")) << svg;
}

TEST(LineChart, KeepsItsLastSecondInside) {
  const LineChart chart{"t", "%", {1, 2}, {{"a", "s1", {50, 50}}}, 100, false};
  EXPECT_THAT(to_svg(chart), HasSubstr("text-anchor=\"end\" x=\"628.0\" y=\"222\">2 s<"));
}

TEST(BarChart, HasNumbersThatFitBesideIt) {
  const auto highest_tick = [](double value) {
    const std::string svg = to_svg(BarChart{"t", "reads", {"a"}, {value}});
    const std::size_t begin = svg.rfind("text-anchor=\"end\"");
    const std::size_t from = svg.find('>', begin) + 1;
    return svg.substr(from, svg.find('<', from) - from);
  };
  EXPECT_EQ(highest_tick(1500), "1,500");
  EXPECT_EQ(highest_tick(14'600), "15k");
  EXPECT_EQ(highest_tick(9'900'000), "10M");
}

TEST(BarChart, NamesNoMoreBarsThanThereIsRoomFor) {
  BarChart chart{"t", "reads", {}, {}};
  for (int i = 0; i < 21; ++i) {
    chart.names.push_back("n" + std::to_string(i));
    chart.values.push_back(i);
  }
  const std::string svg = to_svg(chart);
  EXPECT_THAT(svg, HasSubstr(">n0</text>"));
  EXPECT_THAT(svg, Not(HasSubstr(">n1</text>")));
  EXPECT_THAT(svg, HasSubstr("<title>n1: 1 reads</title>"));
}

}  // namespace
}  // namespace feedrace::view
