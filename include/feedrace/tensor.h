// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace feedrace {

enum class DType : std::uint8_t { kUint8, kFloat16, kFloat32, kInt64 };
enum class Layout : std::uint8_t { kChw, kHwc };

std::size_t size_of(DType dtype) noexcept;
const char* to_string(DType dtype) noexcept;    ///< "float16", as numpy and torch spell it.
const char* to_string(Layout layout) noexcept;  ///< "CHW".

/// A dense array that somebody else owns. Rows-major: the last dimension is contiguous.
struct Tensor {
  /// 64-byte aligned, but in `Batch::image_list` on a GPU. Of the device's memory where `device` is
  /// one.
  void* data = nullptr;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;  ///< As `Batch` says.
  int device = -1;                  ///< Number of the GPU; -1: memory of the host.
  std::size_t size_bytes() const noexcept;
};

/// What happened to one sample of a batch.
enum class SampleFlag : std::uint8_t {
  kReal = 0,         ///< As stored.
  kPadded = 1,       ///< A repeat that fills the last batch (`last_batch=pad` or `fill`).
  kSubstituted = 2,  ///< Another sample stands in for a bad one (`on_error=replace`).
  kBlank = 3,        ///< Zeros stand in for a bad one (`on_error=zero`).
};

/// Images and labels of a batch in a GPU's memory. The copies to there are on a stream of the
/// loader's own; nobody waits for them but the streams that are told to.
class DeviceBatch {
 public:
  virtual ~DeviceBatch() = default;
  /// Makes what comes on a stream from now on start behind the copies. `stream`: a cudaStream_t or
  /// CUstream as a number, 0 the default stream. Call it for every stream that uses the batch.
  /// Throws Error kUnsupported when the device is lost. Thread-safe, as all calls here.
  virtual void hand_over(std::uint64_t stream) = 0;
  /// Waits until the batch is there: for a consumer without streams. Throws likewise.
  virtual void wait() = 0;
  /// Copies a tensor of the batch to the host, of `size_bytes()`, and waits for it. Throws
  /// likewise.
  virtual void read(const Tensor& tensor, std::byte* destination) = 0;
};

/// A field of the samples of a batch, as it is stored.
struct FieldColumn {
  std::string name;
  /// [N]; nothing where a sample has none (an optional field, or a blank sample).
  std::vector<std::optional<std::string>> values;
};

/// What the consumer gets. Immutable but for the tensors' contents, which are the consumer's until
/// the batch dies; then its memory returns to the loader. Keep it as long as you like: the loader
/// makes another slot, within the memory limit.
class Batch {
 public:
  Batch() = default;
  /// `memory` is what tensors and spans lie in.
  explicit Batch(std::shared_ptr<const void> memory) : memory_(std::move(memory)) {}

  /// [N, 3, H, W] or [N, H, W, 3]; raw: [N, shape...]. No data when not decoded or of many sizes.
  Tensor images;
  /// When the pipeline lets pictures differ in size: N of [3, H, W] or [H, W, 3]; else empty. On a
  /// GPU they lie one right behind the other.
  std::vector<Tensor> image_list;
  std::vector<FieldColumn> fields;         ///< As `LoaderOptions::fields` names them.
  Tensor labels;                           ///< [N], int64; -1 where the set has no labels.
  std::span<const std::uint64_t> indices;  ///< [N] Global sample number in the data set.
  std::span<const SampleFlag> flags;       ///< [N]
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;         ///< Number of this batch in its epoch, from 0.
  std::uint64_t position = 0;     ///< In its epoch, of the first sample of all ranks' batches.
  std::uint64_t bad_samples = 0;  ///< Failures in this batch; a stand-in may have failed as well.
  std::uint64_t epoch_bad_samples = 0;  ///< Of this rank in the epoch, with this batch.
  /// Set where images and labels are on a GPU. When the batch dies, streams that it was handed to
  /// may still use it by what they have been given until then.
  std::shared_ptr<DeviceBatch> on_device;

  std::size_t size() const noexcept { return indices.size(); }

 private:
  std::shared_ptr<const void> memory_;
};

}  // namespace feedrace
