// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "feedrace/decoder.h"
#include "feedrace/error.h"
#include "feedrace/formats/sample_spans.h"
#include "feedrace/pipeline/single_reader.h"
#include "feedrace/transform/step_draw.h"

namespace feedrace::pipeline {

/// Reads the sample and says what the pipeline does to it: see `transform::trace_steps`. The first
/// object is of the decoder: {"op": "decode", "size": [height, width], "format": "jpeg"}; of a raw
/// sample it is the only one: {"op": "raw", "shape": [...], "dtype": "float32"}.
Result<std::string> trace_sample(const Pipeline& pipeline, const formats::Dataset& dataset,
                                 const formats::SampleSpans* spans, SingleReader& reader,
                                 const decode::DecodeLimits& limits,
                                 const transform::SampleKey& key);

}  // namespace feedrace::pipeline
