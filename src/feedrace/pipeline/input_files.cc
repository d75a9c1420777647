// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/input_files.h"

namespace feedrace::pipeline {

formats::InputFiles input_files(const LoaderOptions& options, const formats::Dataset* set) {
  formats::InputFiles inputs{options.sources, {options.format.label_file}, set};
  for (const DataSource& source : options.sets) {
    inputs.sources.insert(inputs.sources.end(), source.sources.begin(), source.sources.end());
    inputs.files.push_back(source.format.label_file);
  }
  return inputs;
}

}  // namespace feedrace::pipeline
