// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/cuda/plugin/decoder_header.h"
#include "feedrace/cuda/plugin/decoder_parts.h"
#include "feedrace/cuda/plugin/decoder_split.h"

namespace feedrace::cuda_plugin {
namespace {

// From here on Huffman codes are decoded on the device, which one small picture does not fill.
constexpr std::uint64_t kLargePx = 1'000'000;

}  // namespace
}  // namespace feedrace::cuda_plugin

/// Members end in reverse order, with the device's context current: see close_decoder.
struct feedrace_cuda_decoder {
  feedrace_cuda_decoder(feedrace_cuda_device& opened, const feedrace_cuda_decoder_options& wanted);

  feedrace_cuda_device& device;
  const feedrace_cuda_decoder_options options;
  const feedrace::cuda_plugin::JpegLibrary library;
  feedrace::cuda_plugin::DecoderMemory memory;
  const feedrace::cuda_plugin::DecoderBase base;
  std::unique_ptr<feedrace::cuda_plugin::BatchDecoder> hardware;   ///< Null: no engine, or share 0.
  std::unique_ptr<feedrace::cuda_plugin::BatchDecoder> on_device;  ///< Software; may be null.
  std::unique_ptr<feedrace::cuda_plugin::SoftwareDecoder> software;
  feedrace::cuda_plugin::JpegHeader header;

 private:
  void open_batches();
};

feedrace_cuda_decoder::feedrace_cuda_decoder(feedrace_cuda_device& opened,
                                             const feedrace_cuda_decoder_options& wanted)
    : device(opened),
      options(wanted),
      library(opened.runtime.folders),
      memory(opened),
      base{opened, library, memory} {
  using feedrace::cuda_plugin::Refusal;
  using feedrace::cuda_plugin::SoftwareDecoder;
  if (!library.missing.empty()) {
    throw Refusal(FEEDRACE_CUDA_UNSUPPORTED,
                  fmt::format("{}; {}, or decode on the CPU", library.missing, library.remedy));
  }
  open_batches();
  software = std::make_unique<SoftwareDecoder>(base);
  header = make_header(library, software->handle());
}

void feedrace_cuda_decoder::open_batches() {
  using feedrace::cuda_plugin::BatchDecoder;
  using feedrace::cuda_plugin::JpegHandle;
  const bool is_device = options.bitstream_on_device != 0;
  std::string why;  // That it is absent, `info` says; here the software does its work.
  if (options.hardware_share > 0) {
    JpegHandle handle = make_handle(
        base, is_device ? NVJPEG_BACKEND_HARDWARE_DEVICE : NVJPEG_BACKEND_HARDWARE, &why);
    if (handle && engines_of(base, handle.get(), &why)) {
      hardware = std::make_unique<BatchDecoder>(base, std::move(handle), options);
    }
  }
  if (is_device) {
    JpegHandle handle = make_handle(base, NVJPEG_BACKEND_GPU_HYBRID_DEVICE, &why);
    if (handle) on_device = std::make_unique<BatchDecoder>(base, std::move(handle), options);
  }
}

namespace feedrace::cuda_plugin {
namespace {

void refuse(feedrace_cuda_jpeg& jpeg, int status) noexcept {
  jpeg.status = status;
  jpeg.engine = FEEDRACE_CUDA_ENGINE_NONE;
}

/// One call of `decode`.
class Call {
 public:
  Call(feedrace_cuda_decoder& decoder, std::span<feedrace_cuda_jpeg> jpegs, CUstream stream)
      : decoder_(decoder), jpegs_(jpegs), stream_(stream), looked_(jpegs.size()) {}

  void run() {
    for (feedrace_cuda_jpeg& jpeg : jpegs_) refuse(jpeg, FEEDRACE_CUDA_OK);
    for (std::size_t i = 0; i < jpegs_.size(); ++i) {
      const feedrace_cuda_status status = look(i);
      if (status != FEEDRACE_CUDA_OK) refuse(jpegs_[i], status);
    }
    // First what runs by itself, then what needs this thread.
    const bool has_hardware = decode_together(decoder_.hardware.get(), picked_for_hardware(),
                                              FEEDRACE_CUDA_ENGINE_HARDWARE);
    const bool has_software = decode_together(decoder_.on_device.get(), left_for_on_device(),
                                              FEEDRACE_CUDA_ENGINE_SOFTWARE);
    for (std::size_t i = 0; i < jpegs_.size(); ++i) decode_alone(i);
    if (has_hardware) decoder_.hardware->join(stream_);
    if (has_software) decoder_.on_device->join(stream_);
  }

  /// After a failure: nothing of this call is at work on the outputs any more.
  void settle() noexcept {
    if (decoder_.hardware) decoder_.hardware->settle();
    if (decoder_.on_device) decoder_.on_device->settle();
    decoder_.device.driver.cuStreamSynchronize(stream_);
  }

 private:
  struct Looked {
    bool is_all = false;
    bool is_large_baseline = false;
    bool hardware_takes = false;
    bool on_device_takes = false;
  };

  bool is_open(std::size_t i) const {
    return jpegs_[i].status == FEEDRACE_CUDA_OK && jpegs_[i].engine == FEEDRACE_CUDA_ENGINE_NONE;
  }

  feedrace_cuda_status look(std::size_t i);
  feedrace_cuda_status look_at_frame(std::size_t i);
  feedrace_cuda_status failure(nvjpegStatus_t status, const char* call) const;
  std::vector<std::size_t> picked_for_hardware() const;
  std::vector<std::size_t> left_for_on_device() const;
  bool decode_together(BatchDecoder* batch, const std::vector<std::size_t>& indexes,
                       feedrace_cuda_engine engine);
  void decode_alone(std::size_t i);

  feedrace_cuda_decoder& decoder_;
  std::span<feedrace_cuda_jpeg> jpegs_;
  CUstream stream_;
  std::vector<Looked> looked_;
};

/// OK when a back end may take it; else why not.
feedrace_cuda_status Call::look(std::size_t i) {
  const feedrace_cuda_jpeg& jpeg = jpegs_[i];
  if (jpeg.bytes == nullptr || jpeg.size_bytes == 0) return FEEDRACE_CUDA_BAD_DATA;
  const auto* bytes = static_cast<const std::uint8_t*>(jpeg.bytes);
  const JpegMarkers markers = read_markers({bytes, jpeg.size_bytes});
  if (!markers.is_whole) return FEEDRACE_CUDA_BAD_DATA;
  if (markers.is_stored_as_rgb) return FEEDRACE_CUDA_UNSUPPORTED;
  const nvjpegStatus_t status = decoder_.library.nvjpegJpegStreamParseHeader(
      decoder_.software->handle(), bytes, jpeg.size_bytes, decoder_.header.get());
  if (status != NVJPEG_STATUS_SUCCESS) return failure(status, "nvjpegJpegStreamParseHeader");
  return look_at_frame(i);
}

feedrace_cuda_status Call::look_at_frame(std::size_t i) {
  const JpegLibrary& library = decoder_.library;
  const nvjpegJpegStream_t header = decoder_.header.get();
  const feedrace_cuda_jpeg& jpeg = jpegs_[i];
  unsigned width_px = 0;
  unsigned height_px = 0;
  unsigned component_count = 0;
  unsigned bits = 0;
  nvjpegJpegEncoding_t encoding = NVJPEG_ENCODING_UNKNOWN;
  for (const nvjpegStatus_t status :
       {library.nvjpegJpegStreamGetFrameDimensions(header, &width_px, &height_px),
        library.nvjpegJpegStreamGetComponentsNum(header, &component_count),
        library.nvjpegJpegStreamGetSamplePrecision(header, &bits),
        library.nvjpegJpegStreamGetJpegEncoding(header, &encoding)}) {
    if (status != NVJPEG_STATUS_SUCCESS) return failure(status, "nvjpegJpegStreamGet...");
  }
  const bool is_baseline = encoding == NVJPEG_ENCODING_BASELINE_DCT;
  const bool is_known = is_baseline || encoding == NVJPEG_ENCODING_PROGRESSIVE_DCT_HUFFMAN ||
                        encoding == NVJPEG_ENCODING_EXTENDED_SEQUENTIAL_DCT_HUFFMAN;
  const bool has_colours = component_count == 1 || component_count == 3;  // 4 are CMYK or YCCK.
  if (!is_known || !has_colours || bits != 8) return FEEDRACE_CUDA_UNSUPPORTED;
  const std::uint64_t right_px = std::uint64_t{jpeg.region_x_px} + jpeg.output.width_px;
  const std::uint64_t bottom_px = std::uint64_t{jpeg.region_y_px} + jpeg.output.height_px;
  // The caller's header said something else.
  if (right_px > width_px || bottom_px > height_px) return FEEDRACE_CUDA_BAD_DATA;
  Looked& looked = looked_[i];
  looked.is_all = jpeg.output.width_px == width_px && jpeg.output.height_px == height_px;
  looked.is_large_baseline = is_baseline && std::uint64_t{width_px} * height_px >= kLargePx;
  const bool is_there = decoder_.options.bitstream_on_device == 0 || jpeg.device_bytes != 0;
  const bool has_room =
      width_px <= decoder_.options.max_width_px && height_px <= decoder_.options.max_height_px;
  const auto takes = [&](BatchDecoder* batch) {
    return is_there && has_room && batch != nullptr && batch->takes(header, jpeg, i, looked.is_all);
  };
  looked.hardware_takes = takes(decoder_.hardware.get());
  looked.on_device_takes = takes(decoder_.on_device.get());
  return FEEDRACE_CUDA_OK;
}

/// Of a parser. That an argument is wrong, it says of bytes as well.
feedrace_cuda_status Call::failure(nvjpegStatus_t status, const char* call) const {
  if (meaning_of(status) == FEEDRACE_CUDA_INVALID) return FEEDRACE_CUDA_BAD_DATA;
  return refusal_of(decoder_.base, status, call);
}

std::vector<std::size_t> Call::picked_for_hardware() const {
  if (!decoder_.hardware) return {};
  std::vector<DecodeCost> pictures;
  for (std::size_t i = 0; i < jpegs_.size(); ++i) {
    if (is_open(i)) pictures.push_back({i, jpegs_[i].size_bytes, looked_[i].hardware_takes});
  }
  return pictures_of_engine(pictures, decoder_.options.hardware_share);
}

std::vector<std::size_t> Call::left_for_on_device() const {
  std::vector<std::size_t> indexes;
  for (std::size_t i = 0; i < jpegs_.size(); ++i) {
    if (is_open(i) && looked_[i].on_device_takes) indexes.push_back(i);
  }
  return indexes;
}

/// Whether the pictures are on their way, to be joined. A batch that fails does not say for which
/// picture, so each of them is then decoded alone.
bool Call::decode_together(BatchDecoder* batch, const std::vector<std::size_t>& indexes,
                           feedrace_cuda_engine engine) {
  if (batch == nullptr || indexes.empty()) return false;
  const bool is_on_device = decoder_.options.bitstream_on_device != 0;
  const nvjpegStatus_t status = batch->submit(jpegs_, indexes, is_on_device, stream_);
  if (status != NVJPEG_STATUS_SUCCESS) {
    static_cast<void>(refusal_of(decoder_.base, status, "nvjpegDecodeBatchedEx"));
    batch->join(stream_);
    return false;
  }
  for (const std::size_t i : indexes) jpegs_[i].engine = engine;
  return true;
}

void Call::decode_alone(std::size_t i) {
  if (!is_open(i)) return;
  const Looked& looked = looked_[i];
  const feedrace_cuda_status status =
      decoder_.software->decode(jpegs_[i], looked.is_all, looked.is_large_baseline, stream_);
  if (status == FEEDRACE_CUDA_OK) {
    jpegs_[i].engine = FEEDRACE_CUDA_ENGINE_SOFTWARE;
  } else {
    refuse(jpegs_[i], status);
  }
}

void check_options(const feedrace_cuda_decoder_options& options) {
  const bool is_share = options.hardware_share >= 0 && options.hardware_share <= 1;  // No NaN.
  if (!is_share) {
    throw Refusal(
        FEEDRACE_CUDA_INVALID,
        fmt::format("open_decoder: hardware_share is {}; give 0 to 1", options.hardware_share));
  }
  constexpr std::uint32_t kMaxSidePx = 65535;  // Of a JPEG.
  const bool has_sides = options.max_width_px > 0 && options.max_width_px <= kMaxSidePx &&
                         options.max_height_px > 0 && options.max_height_px <= kMaxSidePx;
  if (!has_sides || options.max_batch == 0 || options.max_batch > kMaxSidePx) {
    throw Refusal(
        FEEDRACE_CUDA_INVALID,
        fmt::format("open_decoder: max_batch {}, max_width_px {}, max_height_px {}; give "
                    "1 to {} of each",
                    options.max_batch, options.max_width_px, options.max_height_px, kMaxSidePx));
  }
}

void check_jpegs(std::span<const feedrace_cuda_jpeg> jpegs, std::uint32_t max_batch) {
  if (jpegs.size() > max_batch) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  fmt::format("decode: {} pictures; the decoder was opened for max_batch {}",
                              jpegs.size(), max_batch));
  }
  for (std::size_t i = 0; i < jpegs.size(); ++i) {
    const feedrace_cuda_picture& output = jpegs[i].output;
    const bool has_room = output.address != 0 && output.width_px > 0 && output.height_px > 0 &&
                          output.row_bytes >= std::int64_t{3} * output.width_px;
    if (!has_room) {
      throw Refusal(
          FEEDRACE_CUDA_INVALID,
          fmt::format("decode: output {} at address {} has {} x {} pixels in rows of {} "
                      "bytes; give memory with rows of 3 bytes a pixel",
                      i, output.address, output.width_px, output.height_px, output.row_bytes));
    }
  }
}

int open_decoder(feedrace_cuda_device* device, const feedrace_cuda_decoder_options* options,
                 feedrace_cuda_decoder** decoder, feedrace_cuda_error* error) {
  return guarded(error, [&] {
    check_options(*options);
    const Current current(*device);
    *decoder = new feedrace_cuda_decoder(*device, *options);
  });
}

void close_decoder(feedrace_cuda_decoder* decoder) {
  std::unique_ptr<feedrace_cuda_decoder> owned(decoder);
  if (!owned) return;
  // Where the context cannot be made current any more, it ends all the same.
  static_cast<void>(guarded(nullptr, [&] {
    const Current current(owned->device);
    owned.reset();
  }));
}

int decode(feedrace_cuda_decoder* decoder, feedrace_cuda_jpeg* jpegs, std::uint32_t count,
           feedrace_cuda_stream stream, feedrace_cuda_error* error) {
  const std::span<feedrace_cuda_jpeg> all(jpegs, count);
  const int status = guarded(error, [&] {
    check_jpegs(all, decoder->options.max_batch);
    const Current current(decoder->device);
    Call call(*decoder, all, stream_of(stream));
    try {
      call.run();
    } catch (...) {
      call.settle();
      throw;
    }
  });
  if (status != FEEDRACE_CUDA_OK) {
    for (feedrace_cuda_jpeg& jpeg : all) refuse(jpeg, status);
  }
  return status;
}

std::uint32_t has_hardware_engine(const feedrace_cuda_decoder* decoder) {
  return decoder->hardware ? 1 : 0;
}

nlohmann::json missing_json(const std::string& why) {
  const std::size_t at = why.rfind("; ");
  if (at == std::string::npos) return {{"missing", why}, {"remedy", "decode on the CPU"}};
  return {{"missing", why.substr(0, at)}, {"remedy", why.substr(at + 2)}};
}

/// Of the hardware engine of one device.
nlohmann::json engine_json(const feedrace_cuda_runtime& runtime, const JpegLibrary& library,
                           int ordinal) {
  std::string why;
  try {
    feedrace_cuda_device device(runtime, ordinal);
    const Current current(device);
    DecoderMemory memory(device);
    const DecoderBase base{device, library, memory};
    const JpegHandle handle = make_handle(base, NVJPEG_BACKEND_HARDWARE, &why);
    if (handle) {
      if (const auto facts = engines_of(base, handle.get(), &why)) {
        return {{"engines", facts->engines}, {"cores", facts->cores}};
      }
    }
  } catch (const std::exception& e) {
    why = e.what();
  }
  return missing_json(why);
}

}  // namespace

std::string decoder_facts(const feedrace_cuda_runtime& runtime) {
  const JpegLibrary library(runtime.folders);
  if (!library.missing.empty()) {
    return nlohmann::json{{"missing", library.missing}, {"remedy", library.remedy}}.dump();
  }
  nlohmann::json facts = {{"version", library.version}, {"library", library.library.path()}};
  int count = 0;
  const bool has_driver =
      runtime.driver.missing.empty() && runtime.driver.cuDeviceGetCount(&count) == CUDA_SUCCESS;
  if (has_driver) {
    facts["hardware"] = nlohmann::json::array();
    for (int ordinal = 0; ordinal < count; ++ordinal) {
      nlohmann::json engine = engine_json(runtime, library, ordinal);
      engine["ordinal"] = ordinal;
      facts["hardware"].push_back(std::move(engine));
    }
  }
  return facts.dump();
}

void add_decoder(feedrace_cuda_plugin& table) {
  table.open_decoder = open_decoder;
  table.close_decoder = close_decoder;
  table.decode = decode;
  table.has_hardware_engine = has_hardware_engine;
}

}  // namespace feedrace::cuda_plugin
