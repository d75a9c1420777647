// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <string>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/verify.h"

namespace feedrace::pack {
namespace {

using formats::counted;

std::string sizes(const char* title, const VerifyReport::Spread& spread) {
  if (spread.count == 0) return {};
  return fmt::format("{:<11} smallest {}, median {}, largest {}\n", title,
                     with_commas(spread.smallest), with_commas(spread.median),
                     with_commas(spread.largest));
}

std::string fields(const VerifyReport& report) {
  constexpr std::size_t kMost = 12;
  if (report.fields.empty()) return {};
  std::string text;
  std::size_t shown = 0;
  for (const auto& [name, count] : report.fields) {
    if (shown++ == kMost) break;
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ", printable(name), with_commas(count));
  }
  if (report.fields.size() > kMost) text += ", ...";
  return fmt::format("fields      {}\n", text);
}

std::string classes(const VerifyReport::Classes& classes) {
  if (!classes.is_known) {
    return "classes     more than a million different labels, which are no classes\n";
  }
  return fmt::format(
      "classes     {} with samples, {} without; fewest: {} of class {}, most: {} of class {}\n",
      with_commas(classes.count), with_commas(classes.empty_count),
      with_commas(classes.smallest.sample_count), classes.smallest.label,
      with_commas(classes.largest.sample_count), classes.largest.label);
}

std::string text_of(const VerifyReport::Finding& finding) {
  std::string text = fmt::format("{:<11} {}: {}: {}\n", finding.is_bad ? "bad" : "note",
                                 finding.check, finding.what, with_commas(finding.count));
  for (const std::string& example : finding.examples) {
    text += fmt::format("            {}\n", example);
  }
  if (finding.count > finding.examples.size() && !finding.examples.empty()) {
    text += "            ...\n";
  }
  return text;
}

/// The set may be bad though no sample is: a shard that is not there has none.
std::string verdict(const VerifyReport& report) {
  const auto kinds = static_cast<std::uint64_t>(std::count_if(
      report.findings.begin(), report.findings.end(), [](const auto& one) { return one.is_bad; }));
  std::string found = "good: no bad sample";
  if (!report.is_good()) {
    found = fmt::format("bad: {} of damage, {}", counted(kinds, "kind"),
                        counted(report.bad_sample_count, "bad sample"));
    if (report.flagged_count > 0) {
      found += fmt::format(", {} decoded with a complaint", with_commas(report.flagged_count));
    }
  }
  return fmt::format("{}; {:.1f} s, {}\n", found, report.seconds,
                     counted(report.thread_count, "thread"));
}

}  // namespace

std::string VerifyReport::to_text() const {
  std::string text = fmt::format("samples     {}, {} with a picture; {}", with_commas(sample_count),
                                 with_commas(picture_count), kind);
  if (shard_count > 0) {
    text += fmt::format(": {}, {}", counted(shard_count, "shard"), human_bytes(shard_bytes));
  }
  text += "\n" + pack::fields(*this);
  if (has_decoded) {
    text += fmt::format("pictures    {} of {} decoded, {} of them with a complaint\n",
                        with_commas(decoded_count), with_commas(picture_count),
                        with_commas(flagged_count));
  }
  text += sizes("bytes", bytes) + sizes("pixels", pixels);
  if (classes) text += pack::classes(*classes);
  if (has_manifest) {
    text += fmt::format("checksums   {} of {} as manifest.json says\n", with_commas(checksum_count),
                        counted(shard_count, "shard"));
  }
  if (!index.empty()) text += fmt::format("index       {}\n", index);
  for (const Finding& finding : findings) text += text_of(finding);
  return text + verdict(*this);
}

}  // namespace feedrace::pack
