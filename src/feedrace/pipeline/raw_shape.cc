// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/raw_shape.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/decode/npy_header.h"
#include "feedrace/pipeline/single_reader.h"
#include "feedrace/storage/backends.h"
#include "feedrace/transform/raw_sample.h"

namespace feedrace::pipeline {
namespace {

Result<RawSamples> first_of(const LoaderOptions& options, const OpenedSets& opened,
                            std::uint64_t sample) {
  constexpr std::uint64_t kMaxBytes = transform::kMaxRawBytes + decode::kMaxNpyHeaderBytes;
  SingleReader::Factory make = options.backend_factory;
  if (!make) make = [] { return storage::simple_backend(); };
  ReadCounters not_counted;  // Nobody has asked for a batch yet.
  SingleReader reader(*opened.dataset, std::move(make), not_counted, kMaxBytes);
  const auto bytes = reader.read(sample);
  if (!bytes) return bytes.error();
  const auto image = image_of(*bytes, opened.spans.get(), sample);
  if (!image) return image.error();
  auto values = transform::find_raw_values(*options.pipeline.raw, *image, image->size());
  if (!values) return values.error();
  return std::move(values->samples);
}

}  // namespace

LoaderOptions learn_raw(LoaderOptions options, const OpenedSets& opened) {
  std::optional<RawSamples>& raw = options.pipeline.raw;
  if (!raw || (raw->dtype && raw->shape)) return options;
  const auto& sets = opened.sets;
  const order::OrderedSet& set = *std::find_if(
      sets.begin(), sets.end() - 1, [](const auto& each) { return each.selection->size() > 0; });
  if (set.selection->size() == 0) return options;  // The plan says that there are no samples.
  const std::uint64_t sample = set.first_sample + set.selection->sample(0);
  auto first = first_of(options, opened, sample);
  if (!first) {
    const std::string where = opened.dataset->where(sample);
    std::string message = first.error().message;
    if (!message.starts_with(where)) message = where + ": " + message;
    throw Error(first.error().code,
                message +
                    "; dtype and shape of all samples are learnt from this one: repair it, or "
                    "give them");
  }
  raw = *std::move(first);
  options.pipeline.check();
  return options;
}

}  // namespace feedrace::pipeline
