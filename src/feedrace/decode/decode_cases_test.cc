// SPDX-License-Identifier: Apache-2.0
// Every picture of tests/cases with its known right answer. tests/cases/README.md says what the
// expectations mean.

#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cmath>
#include <fstream>
#include <optional>
#include <sstream>

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::decode {
namespace {

using nlohmann::json;

const std::string kRoot = FEEDRACE_TEST_DATA "/cases/";

struct Picture {
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  std::uint8_t orientation = 1;
  std::vector<std::uint8_t> rgb;
  std::string complaint;
};

Result<Picture> decode_bytes(const std::string& content, bool upright,
                             const DecodeLimits& limits = {}) {
  ImageDecoder decoder(limits, upright);
  Result<ImageInfo> info = decoder.open(std::as_bytes(std::span(content)));
  if (!info) return info.error();
  Picture picture{info->width_px, info->height_px, info->orientation, {}, {}};
  picture.rgb.resize(std::size_t{info->width_px} * info->height_px * 3);
  Result<void> read =
      decoder.read_region(info->whole(), picture.rgb.data(), std::size_t{info->width_px} * 3);
  if (!read) return read.error();
  picture.complaint = decoder.complaint();
  return picture;
}

std::string content_of(const json& test_case) {
  return testing::read_file(kRoot + test_case["file"].get<std::string>());
}

std::string base_name(const json& test_case) {
  return std::filesystem::path(test_case["file"].get<std::string>()).filename();
}

/// Why `picture` is not the expected one; empty when it is.
std::string difference(const Picture& picture, const json& pixels, const json& tolerance) {
  const auto width_px = pixels["width"].get<std::uint32_t>();
  const auto height_px = pixels["height"].get<std::uint32_t>();
  if (picture.width_px != width_px || picture.height_px != height_px) {
    return fmt::format("{} x {} pixels instead of {} x {}", picture.width_px, picture.height_px,
                       width_px, height_px);
  }
  std::vector<std::uint8_t> expected;
  if (pixels.contains("constant_rgb")) {
    const auto colour = pixels["constant_rgb"].get<std::array<std::uint8_t, 3>>();
    for (std::size_t i = 0; i < picture.rgb.size(); ++i) expected.push_back(colour[i % 3]);
  } else {
    const std::string png = pixels["png"].get<std::string>();
    Result<Picture> reference = decode_bytes(testing::read_file(kRoot + png), false);
    if (!reference) return png + ": " + reference.error().message;
    expected = reference->rgb;
  }
  if (expected.size() != picture.rgb.size()) return "the reference has another size";
  int largest = 0;
  double sum = 0;
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const int off = std::abs(int{expected[i]} - int{picture.rgb[i]});
    largest = std::max(largest, off);
    sum += off;
  }
  const double mean = sum / static_cast<double>(expected.size());
  const bool fits =
      largest <= tolerance.value("max_abs", 0) && mean <= tolerance.value("mean_abs", 0.0);
  return fits ? "" : fmt::format("pixels differ by up to {}, {:.3f} on average", largest, mean);
}

std::string difference_to_any(const Picture& picture, const json& expect) {
  const json tolerance = expect.value("tolerance", json::object());
  std::string first = difference(picture, expect["pixels"], tolerance);
  if (first.empty()) return "";
  for (const json& other : expect.value("alternatives", json::array())) {
    if (difference(picture, other["pixels"], other["tolerance"]).empty()) return "";
  }
  return first;
}

bool contains_case_blind(std::string text, std::string part) {
  const auto lower = [](std::string& s) {
    for (char& c : s) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  };
  lower(text);
  lower(part);
  return text.find(part) != std::string::npos;
}

/// Why `message`, behind the sample's name as a caller prints it, is not good enough.
std::string message_fault(const std::string& message, const json& test_case) {
  const json& expect = test_case["expect"];
  const std::string line = base_name(test_case) + ": " + message;
  if (line.find('\n') != std::string::npos) return "more than one line: " + line;
  for (const json& part : expect.value("error_must_contain", json::array())) {
    std::string needed = part.get<std::string>();
    if (needed == "{file}") needed = base_name(test_case);
    if (line.find(needed) == std::string::npos) return "no '" + needed + "' in: " + line;
  }
  const json choices = expect.value("error_should_contain_one_of", json::array());
  for (const json& choice : choices) {
    if (contains_case_blind(message, choice.get<std::string>())) return "";
  }
  return choices.empty() ? "" : "none of " + choices.dump() + " in: " + line;
}

/// Why the case's answer is wrong; empty when it is right.
std::string fault_as_stored(const json& test_case) {
  const json& expect = test_case["expect"];
  const std::string outcome = expect["outcome"].get<std::string>();
  Result<Picture> picture = decode_bytes(content_of(test_case), false);
  if (!picture) {
    if (outcome == "ok") return "failed: " + picture.error().message;
    return message_fault(picture.error().message, test_case);
  }
  if (outcome == "error") return "pixels instead of an error";
  if (outcome == "error_or_flagged") {
    return picture->complaint.empty() ? "pixels without a complaint" : "";
  }
  return expect.contains("pixels") ? difference_to_any(*picture, expect) : "";
}

std::string fault_upright(const json& test_case) {
  const json& expect = test_case["expect"];
  if (!expect.contains("orientation")) return "";
  Result<Picture> picture = decode_bytes(content_of(test_case), true);
  if (!picture) return "failed: " + picture.error().message;
  const int stored = expect["orientation"].get<int>();
  if (int{picture->orientation} != (stored == 0 ? 1 : stored)) {
    return fmt::format("orientation {} instead of {}", picture->orientation, stored);
  }
  const json& pixels =
      expect.contains("pixels_oriented") ? expect["pixels_oriented"] : expect["pixels"];
  return difference(*picture, pixels, expect.value("tolerance", json::object()));
}

json load_cases() {
  json picked = json::array();
  const json all = json::parse(testing::read_file(kRoot + "expectations.json"));
  for (const json& test_case : all["cases"]) {
    if (test_case["kind"] == "decode") picked.push_back(test_case);
  }
  return picked;
}

TEST(DecodeCases, EveryPictureGivesItsKnownAnswer) {
  const json cases = load_cases();
  ASSERT_GE(cases.size(), 120U);
  for (const json& test_case : cases) {
    const std::string id = test_case["id"].get<std::string>();
    std::string fault = fault_as_stored(test_case);
    if (fault.empty()) fault = fault_upright(test_case);
    EXPECT_EQ(fault, "") << id << ": " << test_case["why"];
  }
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
/// Runs in a child process. Peak memory above that of the idle process, in MB.
double peak_growth_mb(const std::string& content) {
  struct rusage before{};
  struct rusage after{};
  getrusage(RUSAGE_SELF, &before);
  ImageDecoder decoder;
  Result<ImageInfo> info = decoder.open(std::as_bytes(std::span(content)));
  if (info) {
    std::vector<std::uint8_t> row(std::size_t{info->width_px} * 3);
    if (decoder.begin(info->whole())) {
      for (std::uint32_t y = 0; y < info->height_px; ++y) {
        if (!decoder.read_rows(row.data(), row.size(), 1)) break;
      }
    }
  }
  getrusage(RUSAGE_SELF, &after);
  return static_cast<double>(after.ru_maxrss - before.ru_maxrss) * 1024 / 1e6;
}

TEST(DecodeCases, BombsStayBelowTheirMemoryLimit) {
  int checked = 0;
  for (const json& test_case : load_cases()) {
    const json& expect = test_case["expect"];
    if (!expect.contains("allocation_limit_mb")) continue;
    ++checked;
    const std::string content = content_of(test_case);
    const pid_t child = fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      // Address space that is asked for counts too, not only what is touched.
      const double limit_mb = expect["allocation_limit_mb"].get<double>();
      std::size_t pages = 0;
      std::ifstream("/proc/self/statm") >> pages;
      const auto now_bytes = pages * static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
      const rlim_t most = now_bytes + static_cast<std::size_t>(limit_mb * 1e6);
      const struct rlimit limit{most, most};
      if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(3);
      _exit(peak_growth_mb(content) <= limit_mb ? 0 : 1);
    }
    int status = 0;
    ASSERT_EQ(waitpid(child, &status, 0), child);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0)
        << test_case["id"] << ": status " << status;
  }
  EXPECT_GE(checked, 6);
}
#endif

}  // namespace
}  // namespace feedrace::decode
