// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "feedrace/backend.h"
#include "feedrace/core/buffer_pool.h"
#include "feedrace/error.h"
#include "feedrace/format.h"
#include "feedrace/formats/sample_spans.h"
#include "feedrace/pipeline/read_counters.h"

namespace feedrace::pipeline {

/// Reads one sample at a time and waits for it: the rare path of stand-ins for bad samples. The
/// back end is made at the first use. One instance serves one thread; `cancel()` may come from any.
class SingleReader {
 public:
  using Factory = std::function<std::unique_ptr<storage::Backend>()>;

  SingleReader(const formats::Dataset& dataset, Factory factory, ReadCounters& counters,
               std::uint64_t max_sample_bytes)
      : dataset_(dataset),
        factory_(std::move(factory)),
        counters_(counters),
        max_sample_bytes_(max_sample_bytes) {}

  /// The sample's encoded bytes in memory of their own.
  struct Bytes {
    HostMemory memory;
    std::size_t begin = 0;
    std::size_t size = 0;
    std::span<const std::byte> view() const noexcept { return memory.bytes().subspan(begin, size); }
  };
  Result<Bytes> read(std::uint64_t sample);

  /// Releases a `read()` that waits for a device; from any thread.
  void cancel() noexcept;

 private:
  const formats::Dataset& dataset_;
  const Factory factory_;
  ReadCounters& counters_;
  const std::uint64_t max_sample_bytes_;
  std::unique_ptr<storage::Backend> backend_;
  std::mutex mutex_;
  bool cancelled_ = false;                     // Guarded by mutex_.
  storage::Backend* interruptible_ = nullptr;  // Guarded by mutex_. `backend_`, for `cancel()`.
};

/// Of what was read of a sample, its image, without the fields that lie beside it. `spans`: the
/// data set when further fields are wanted, else null.
Result<std::span<const std::byte>> image_of(const SingleReader::Bytes& bytes,
                                            const formats::SampleSpans* spans,
                                            std::uint64_t sample);

}  // namespace feedrace::pipeline
