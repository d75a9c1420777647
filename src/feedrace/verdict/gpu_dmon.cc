// SPDX-License-Identifier: Apache-2.0
#include "feedrace/verdict/gpu_dmon.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <sstream>
#include <string>
#include <vector>

#include "feedrace/error.h"

namespace feedrace::verdict {
namespace {

std::vector<std::string> words_of(const std::string& line) {
  std::istringstream text(line);
  std::vector<std::string> words;
  for (std::string word; text >> word;) words.push_back(word);
  return words;
}

template <typename Number>
std::optional<Number> number_in(const std::string& word) {
  Number value{};
  const auto [stop, error] = std::from_chars(word.data(), word.data() + word.size(), value);
  const bool is_number = error == std::errc() && stop == word.data() + word.size();
  return is_number ? std::optional(value) : std::nullopt;
}

/// Where lines have what; by the header, "# gpu pwr gtemp mtemp sm ..." or "#Time gpu sm ...".
struct Columns {
  std::optional<std::size_t> gpu, sm;

  void read(const std::string& header) {
    const auto names = words_of(header.substr(1));
    for (std::size_t i = 0; i < names.size(); ++i) {
      if (names[i] == "gpu") gpu = i;
      if (names[i] == "sm") sm = i;
    }
  }
};

struct Sum {
  double percent = 0;
  double count = 0;
};

}  // namespace

std::map<std::size_t, double> parse_gpu_dmon(std::string_view text) {
  std::map<std::size_t, Sum> sums;
  Columns columns;
  std::istringstream lines{std::string(text)};
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with('#')) {
      columns.read(line);
      continue;
    }
    const auto words = words_of(line);
    // A line that is being written may end early.
    if (!columns.gpu || !columns.sm || words.size() <= std::max(*columns.gpu, *columns.sm)) {
      continue;
    }
    const auto gpu = number_in<std::size_t>(words[*columns.gpu]);
    const auto percent = number_in<double>(words[*columns.sm]);
    if (!gpu || !percent || !(*percent >= 0 && *percent <= 100)) continue;
    sums[*gpu].percent += *percent;
    sums[*gpu].count += 1;
  }
  std::map<std::size_t, double> shares;
  for (const auto& [gpu, sum] : sums) shares[gpu] = sum.percent / sum.count / 100;
  if (!shares.empty()) return shares;
  throw Error(ErrorCode::kInvalidArgument,
              "dmon: no line tells how busy a GPU was (columns gpu and sm); give what nvidia-smi "
              "dmon -s u wrote while the run went on");
}

double busiest_gpu(std::string_view dmon_text) {
  double most = 0;
  for (const auto& [gpu, share] : parse_gpu_dmon(dmon_text)) most = std::max(most, share);
  return most;
}

}  // namespace feedrace::verdict
