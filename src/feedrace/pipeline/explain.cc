// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/explain.h"

#include <string>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/verdict/rules.h"

namespace feedrace::pipeline {
namespace {

/// Behind the kind: how to have such pictures decoded by our own decoder.
std::string_view remedy_of(std::string_view kind) {
  const bool is_only_coded_otherwise = kind == "progressive" || kind == "arithmetic coding";
  return is_only_coded_otherwise
             ? "; write them as baseline (jpegtran -copy all -optimize IN > OUT)"
             : "";
}

/// That most pictures are not our own decoder's to decode; else nothing.
std::string kinds(const JpegStats& jpeg) {
  const std::uint64_t sound = jpeg.feedrace + jpeg.libjpeg_turbo;
  if (jpeg.kind == nullptr || 2 * jpeg.libjpeg_turbo <= sound) return {};
  return fmt::format("{:.0f} % of the JPEG pictures are left to libjpeg-turbo, the last one: {}{}",
                     100 * static_cast<double>(jpeg.libjpeg_turbo) / static_cast<double>(sound),
                     jpeg.kind, remedy_of(jpeg.kind));
}

}  // namespace

Verdict explain(const verdict::Facts& facts, const JpegStats& jpeg, const Pipeline& pipeline) {
  Verdict verdict = verdict::judge(facts);
  if (std::string sentence = kinds(jpeg); !sentence.empty()) {
    verdict.notes.push_back(std::move(sentence));
  }
  for (std::string& step : pipeline.unfused()) verdict.notes.push_back(std::move(step));
  return verdict;
}

}  // namespace feedrace::pipeline
