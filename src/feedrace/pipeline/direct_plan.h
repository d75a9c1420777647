// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <functional>
#include <memory>
#include <string>

#include "feedrace/cuda/batch_upload.h"
#include "feedrace/cuda/direct_backend.h"
#include "feedrace/loader.h"
#include "feedrace/pipeline/plan.h"

namespace feedrace::pipeline {

/// What samples need that go from storage to a GPU by cuFile, `LoaderOptions::backend`
/// "cufile".
struct DirectParts {
  std::shared_ptr<cuda::DirectMemory> memory;  ///< Of the read buffers.
  /// For each batch of raw samples, where they go.
  std::function<std::shared_ptr<cuda::BatchUpload::Slot>()> take_on_device;
};

bool is_direct(const LoaderOptions& options);
/// Raw samples go to their places of a batch on the device at once; pictures go through its pass.
bool is_direct_raw(const LoaderOptions& options);

/// Throws Error kInvalidArgument where the options ask for more than samples on a GPU.
void check_direct(const LoaderOptions& options);
/// The same, where the data set is none of raw samples or of decoded pictures in shards.
void check_direct(const LoaderOptions& options, const formats::Dataset& dataset);

/// Buffers of 1 to 16 MiB, larger only where a sample is; of raw samples dtype and shape are known.
BufferShape direct_buffers(const LoaderOptions& options, const formats::Dataset& dataset,
                           std::size_t decode_threads);

/// The largest sample that a buffer takes, wherever it begins in a block.
std::size_t direct_sample_bytes(const BufferShape& buffers);

/// Opens cuFile on the device. Throws Error kUnsupported, with what is missing.
std::shared_ptr<cuda::Direct> open_direct(const LoaderOptions& options,
                                          std::shared_ptr<cuda::Device> device);

/// "cufile: 1 MiB reads ...": for the plan.
std::string direct_reason(const BufferShape& buffers);

}  // namespace feedrace::pipeline
