// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/sample_trace.h"

#include <nlohmann/json.hpp>

#include "feedrace/decode/image_decoder.h"
#include "feedrace/transform/raw_sample.h"
#include "feedrace/transform/step_trace.h"

namespace feedrace::pipeline {

Result<std::string> trace_sample(const Pipeline& pipeline, const formats::Dataset& dataset,
                                 const formats::SampleSpans* spans, SingleReader& reader,
                                 const decode::DecodeLimits& limits,
                                 const transform::SampleKey& key) {
  const auto named = [&](Failure failure) {
    failure.message = dataset.where(key.sample) + ": " + failure.message;
    return failure;
  };
  const auto bytes = reader.read(key.sample);
  if (!bytes) return named(bytes.error());
  const auto image = image_of(*bytes, spans, key.sample);
  if (!image) return named(image.error());
  if (pipeline.raw) {
    const auto values = transform::find_raw_values(*pipeline.raw, *image, image->size());
    if (!values) return named(values.error());
    return nlohmann::ordered_json{{{"op", "raw"},
                                   {"shape", *values->samples.shape},
                                   {"dtype", to_string(*values->samples.dtype)}}}
        .dump();
  }
  decode::ImageDecoder decoder(limits, pipeline.orientation == Orientation::kUpright);
  const auto info = decoder.open(*image);
  if (!info) return named(info.error());
  nlohmann::ordered_json list = {
      {{"op", "decode"}, {"size", {info->height_px, info->width_px}}, {"format", info->format}}};
  const auto traced =
      transform::trace_steps(pipeline, {info->width_px, info->height_px}, key, list);
  if (!traced) return named(traced.error());
  return list.dump();
}

}  // namespace feedrace::pipeline
