// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <string>
#include <utility>

#include <nlohmann/json.hpp>

namespace feedrace::view {

/// Name and colour of the stages, in the order of the way of a sample.
inline constexpr std::array<std::pair<const char*, const char*>, 4> kReportStages = {
    {{"io", "s2"}, {"decode", "s1"}, {"device", "s4"}, {"consumer", "s3"}}};

/// A member that is a number, else 0.
double number_of(const nlohmann::ordered_json& value, const char* name);

/// "12,345".
std::string count_text(double value);

/// A part of the page, with its heading; `body` is HTML.
std::string card(const std::string& title, const std::string& body);

}  // namespace feedrace::view
