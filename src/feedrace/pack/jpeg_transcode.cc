// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/jpeg_transcode.h"

#include <algorithm>

#include <fmt/format.h>

#include "feedrace/decode/jpeg_header.h"
#include "feedrace/decode/jpeg_state.h"
#include "feedrace/decode/messages.h"
#include "feedrace/pack/jpeg_output.h"

namespace feedrace::pack {
namespace {

using decode::JpegState;

/// MCUs side by side in a scan of all components.
unsigned mcus_a_row(const jpeg_decompress_struct& cinfo) noexcept {
  if (cinfo.num_components == 1) return cinfo.comp_info[0].width_in_blocks;
  const auto mcu_px = static_cast<JDIMENSION>(cinfo.max_h_samp_factor * DCTSIZE);
  return (cinfo.image_width + mcu_px - 1) / mcu_px;
}

bool is_as_wanted(const jpeg_decompress_struct& cinfo, const JpegTranscode& wanted) noexcept {
  const bool is_one_scan = !cinfo.progressive_mode && cinfo.comps_in_scan == cinfo.num_components;
  const bool is_baseline = is_one_scan && cinfo.arith_code == FALSE;
  const bool has_restarts =
      is_one_scan &&
      cinfo.restart_interval == std::uint64_t{wanted.restart_rows} * mcus_a_row(cinfo);
  return (!wanted.baseline || is_baseline) && (wanted.restart_rows == 0 || has_restarts);
}

/// Empty when every coefficient of every component was sent. What decoders make of the others,
/// by smoothing, would be lost.
std::string gap(const jpeg_decompress_struct& cinfo) {
  for (int i = 0; i < cinfo.num_components; ++i) {
    if (cinfo.comp_info[i].quant_table == nullptr) {
      return fmt::format("the scan of colour component {} is missing", i);
    }
    if (!cinfo.progressive_mode || cinfo.coef_bits == nullptr) continue;
    const int* bits = cinfo.coef_bits[i];
    if (std::any_of(bits, bits + DCTSIZE2, [](int missing) { return missing != 0; })) {
      return fmt::format("the last scans of colour component {} are missing", i);
    }
  }
  return "";
}

Result<void> open(JpegState& state, std::span<const std::byte> encoded,
                  const decode::DecodeLimits& limits) {
  const auto header = decode::read_jpeg_header(encoded);
  if (!header) return header.error();
  if (header->has_frame) {
    auto fits = decode::check_size("JPEG", header->width_px, header->height_px, limits);
    if (!fits) return fits;
  }
  if (!state.open(encoded)) return state.failure();
  const bool is_read = state.guarded([](jpeg_decompress_struct& cinfo) {
    constexpr unsigned kWhole = 0xffff;
    jpeg_save_markers(&cinfo, JPEG_COM, kWhole);
    for (int i = 0; i < 16; ++i) jpeg_save_markers(&cinfo, JPEG_APP0 + i, kWhole);
    jpeg_read_header(&cinfo, TRUE);
  });
  if (!is_read) return state.failure();
  const jpeg_decompress_struct& cinfo = state.cinfo();
  auto fits = decode::check_size("JPEG", cinfo.image_width, cinfo.image_height, limits);
  if (!fits) return fits;
  const std::uint64_t needed = decode::coefficient_bytes(cinfo);
  if (needed <= limits.max_memory_bytes) return {};
  return decode::needs_too_much_memory("JPEG", needed, limits);
}

Result<jvirt_barray_ptr*> read_coefficients(JpegState& state) {
  jvirt_barray_ptr* coefficients = nullptr;
  const bool is_read = state.guarded([&coefficients](jpeg_decompress_struct& cinfo) {
    coefficients = jpeg_read_coefficients(&cinfo);
  });
  if (!is_read) return state.failure();
  std::string found = gap(state.cinfo());
  if (found.empty() && state.ran_out()) found = "the end marker (EOI) is missing";
  if (found.empty() && state.warning_count() > 0) found = state.warning_text();
  if (found.empty()) return coefficients;
  return decode::corrupt(fmt::format("damaged JPEG data, not to be written anew: {}", found));
}

}  // namespace

Result<std::optional<std::string>> transcode_jpeg(std::span<const std::byte> encoded,
                                                  const JpegTranscode& wanted,
                                                  const decode::DecodeLimits& limits) {
  JpegState state;
  if (auto opened = open(state, encoded, limits); !opened) return opened.error();
  if (is_as_wanted(state.cinfo(), wanted)) return std::optional<std::string>();
  // Of the first scan; later ones may have their own.
  const unsigned restart_interval = state.cinfo().restart_interval;
  const auto coefficients = read_coefficients(state);
  if (!coefficients) return coefficients.error();
  JpegOutput output;
  jpeg_decompress_struct* source = &state.cinfo();
  jvirt_barray_ptr* arrays = *coefficients;
  const bool done = output.open() && output.guarded([=](jpeg_compress_struct& cinfo) {
    jpeg_copy_critical_parameters(source, &cinfo);
    if (!wanted.baseline) {
      cinfo.arith_code = source->arith_code;
      if (source->progressive_mode) jpeg_simple_progression(&cinfo);
    }
    cinfo.optimize_coding = cinfo.arith_code == FALSE;  // That has no tables.
    cinfo.restart_interval = wanted.restart_rows == 0 ? restart_interval : 0;
    cinfo.restart_in_rows = static_cast<int>(wanted.restart_rows);
    // They come along with all other segments.
    cinfo.write_JFIF_header = FALSE;
    cinfo.write_Adobe_marker = FALSE;
    jpeg_write_coefficients(&cinfo, arrays);
    for (jpeg_saved_marker_ptr one = source->marker_list; one != nullptr; one = one->next) {
      jpeg_write_marker(&cinfo, one->marker, one->data, one->data_length);
    }
    jpeg_finish_compress(&cinfo);
  });
  if (!done) return output.failure();
  return std::optional(output.bytes());
}

}  // namespace feedrace::pack
