// SPDX-License-Identifier: Apache-2.0
#pragma once

// The two ways through nvJPEG that decoder.cc divides a batch among.

#include <array>
#include <optional>
#include <span>
#include <vector>

#include "feedrace/cuda/plugin/decoder_library.h"
#include "feedrace/cuda/plugin/decoder_memory.h"
#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {

/// An event between a stream of the decoder's and the host or another stream. Throws Refusal.
class Mark {
 public:
  explicit Mark(const feedrace_cuda_device& device);
  ~Mark();
  Mark(const Mark&) = delete;
  Mark& operator=(const Mark&) = delete;

  void record(CUstream stream);
  /// The calling thread waits; not if nothing was recorded since the last time.
  void wait();
  void make_wait(CUstream stream) const;

 private:
  const feedrace_cuda_device& device_;
  CUevent event_ = nullptr;
  bool is_recorded_ = false;
};

/// What all parts of a decoder use; outlives them.
struct DecoderBase {
  feedrace_cuda_device& device;
  const JpegLibrary& library;
  DecoderMemory& memory;

  /// Throws Refusal with the sizes when memory ran out, or as `check` does.
  void check(nvjpegStatus_t status, const char* call) const;
};

/// A handle of the back end; null, with `*why`, where the device or the library has no such thing.
JpegHandle make_handle(const DecoderBase& base, nvjpegBackend_t backend, std::string* why);

struct EngineFacts {
  unsigned engines = 0;
  unsigned cores = 0;  ///< Of each.
};
/// Nothing, with `*why`, where there are none.
std::optional<EngineFacts> engines_of(const DecoderBase& base, nvjpegHandle_t hardware,
                                      std::string* why);

/// Sets the region that the picture's output shows; none when that is all of it, since a back end
/// may take no regions at all.
nvjpegStatus_t set_region(const JpegLibrary& library, nvjpegDecodeParams_t params,
                          const feedrace_cuda_jpeg& jpeg, bool is_all);
nvjpegImage_t image_of(const feedrace_cuda_jpeg& jpeg) noexcept;

/// Pictures that one call decodes together, on a stream of its own: the hardware engine, or the
/// software for bitstreams in device memory.
class BatchDecoder {
 public:
  BatchDecoder(const DecoderBase& base, JpegHandle handle,
               const feedrace_cuda_decoder_options& options);
  ~BatchDecoder() { settle(); }
  BatchDecoder(const BatchDecoder&) = delete;
  BatchDecoder& operator=(const BatchDecoder&) = delete;

  /// Whether it takes the picture, in the region that is asked for. `index`: of the call's
  /// pictures.
  bool takes(nvjpegJpegStream_t header, const feedrace_cuda_jpeg& jpeg, std::size_t index,
             bool is_all);
  /// Puts the decoding of the pictures with these indexes on its stream. On Hopper the engine does
  /// not wait for the stream's earlier work, so the host does: the work that `caller` has so far is
  /// done when this returns, and nothing else may be using the outputs.
  nvjpegStatus_t submit(std::span<const feedrace_cuda_jpeg> jpegs,
                        std::span<const std::size_t> indexes, bool is_on_device, CUstream caller);
  /// What comes on the stream from now on finds the pictures decoded.
  void join(CUstream caller) const { done_.make_wait(caller); }
  /// Waits on the host, after a failure.
  void settle() noexcept;

 private:
  struct Stream {
    explicit Stream(const feedrace_cuda_device& owner);
    ~Stream();
    const feedrace_cuda_device& device;
    CUstream stream = nullptr;
  };

  DecoderBase base_;
  JpegHandle handle_;
  JpegState state_;
  std::vector<JpegParams> params_;  // By index of the picture.
  Stream stream_;
  Mark before_;
  Mark done_;
};

/// One picture after another: Huffman codes on this thread, the rest on the caller's stream.
class SoftwareDecoder {
 public:
  explicit SoftwareDecoder(const DecoderBase& base);
  ~SoftwareDecoder();
  SoftwareDecoder(const SoftwareDecoder&) = delete;
  SoftwareDecoder& operator=(const SoftwareDecoder&) = delete;

  nvjpegHandle_t handle() const noexcept { return handle_.get(); }
  /// OK, BAD_DATA or UNSUPPORTED; throws Refusal for what is not the picture's fault.
  feedrace_cuda_status decode(const feedrace_cuda_jpeg& jpeg, bool is_all, bool is_large_baseline,
                              CUstream stream);

 private:
  // What a picture needs from its Huffman codes until the device is through with it.
  struct Slot {
    explicit Slot(const feedrace_cuda_device& device) : done(device) {}
    PinnedBuffer pinned;
    DeviceBuffer on_device;
    JpegHeader header;
    JpegState hybrid;
    JpegState gpu_hybrid;
    Mark done;
  };

  void fill(Slot& slot);
  JpegState make_state(const JpegDecoder& decoder, const Slot& slot) const;
  bool supports(const JpegDecoder& decoder, const Slot& slot) const;
  nvjpegStatus_t run(Slot& slot, bool on_gpu, const feedrace_cuda_jpeg& jpeg, CUstream stream);

  static constexpr std::size_t kSlotCount = 3;  // One on the host, one on the device, one between.

  DecoderBase base_;
  JpegHandle handle_;
  JpegDecoder hybrid_;
  JpegDecoder gpu_hybrid_;  // Huffman codes on the device; may be null.
  JpegParams params_;
  std::array<std::optional<Slot>, kSlotCount> slots_;
  std::size_t next_slot_ = 0;
};

/// The status of a picture that a call refused; throws where it is not the picture's fault.
feedrace_cuda_status refusal_of(const DecoderBase& base, nvjpegStatus_t status, const char* call);

}  // namespace feedrace::cuda_plugin
