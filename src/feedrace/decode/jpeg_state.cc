// SPDX-License-Identifier: Apache-2.0
#include "feedrace/decode/jpeg_state.h"

#include <string_view>

#include <fmt/format.h>
#include <jerror.h>

#include "feedrace/core/text.h"
#include "feedrace/decode/messages.h"

namespace feedrace::decode {
namespace {

/// Warnings after which pixels are wrong or missing. libjpeg fills in grey and goes on.
bool is_damage(int code) noexcept {
  switch (code) {
    case JWRN_HIT_MARKER:
    case JWRN_HUFF_BAD_CODE:
    case JWRN_ARITH_BAD_CODE:
    case JWRN_MUST_RESYNC:
    case JWRN_BOGUS_PROGRESSION:
    case JWRN_JPEG_EOF:
      return true;
    default:
      return false;
  }
}

/// Sound files of kinds that this libjpeg does not do.
bool is_unsupported(int code) noexcept {
  switch (code) {
    case JERR_BAD_PRECISION:
    case JERR_SOF_UNSUPPORTED:
    case JERR_ARITH_NOTIMPL:
    case JERR_CCIR601_NOTIMPL:
    case JERR_FRACT_SAMPLE_NOTIMPL:
    case JERR_CONVERSION_NOTIMPL:
    case JERR_NOTIMPL:
    case JERR_NOT_COMPILED:
      return true;
    default:
      return false;
  }
}

/// libjpeg's text as a part of our sentence, which says itself that the data is corrupt. Small
/// first letter, but "JPEG" and the like stay.
std::string lowered(std::string_view text) {
  constexpr std::string_view kPrefix = "Corrupt JPEG data: ";
  if (text.starts_with(kPrefix)) text.remove_prefix(kPrefix.size());
  std::string out = printable(text);
  const auto upper = [&](std::size_t i) {
    return out.size() > i && out[i] >= 'A' && out[i] <= 'Z';
  };
  if (upper(0) && !upper(1)) out[0] = static_cast<char>(out[0] - 'A' + 'a');
  return out;
}

}  // namespace

struct JpegState::Callbacks {
  static JpegState& state(j_common_ptr cinfo) noexcept {
    return *static_cast<JpegState*>(cinfo->client_data);
  }
  static JpegState& state(j_decompress_ptr cinfo) noexcept {
    return *static_cast<JpegState*>(cinfo->client_data);
  }

  [[noreturn]] static void error_exit(j_common_ptr cinfo) {
    JpegState& self = state(cinfo);
    self.code_ = cinfo->err->msg_code;
    (*cinfo->err->format_message)(cinfo, self.text_);
    longjmp(self.jump_, 1);
  }

  static void emit_message(j_common_ptr cinfo, int level) {
    if (level >= 0) return;  // A trace.
    if (is_damage(cinfo->err->msg_code)) error_exit(cinfo);
    JpegState& self = state(cinfo);
    if (self.warning_count_++ == 0) (*cinfo->err->format_message)(cinfo, self.warning_);
  }

  static void output_message(j_common_ptr /*cinfo*/) {}

  static void no_op(j_decompress_ptr /*cinfo*/) {}

  static boolean fill_input_buffer(j_decompress_ptr cinfo) {
    static constexpr JOCTET kEnd[2] = {0xff, JPEG_EOI};
    state(cinfo).ran_out_ = true;
    cinfo->src->next_input_byte = kEnd;
    cinfo->src->bytes_in_buffer = sizeof kEnd;
    return TRUE;
  }

  static void skip_input_data(j_decompress_ptr cinfo, long count) {
    if (count <= 0) return;
    const auto skipped = static_cast<std::size_t>(count);
    jpeg_source_mgr& source = *cinfo->src;
    if (skipped > source.bytes_in_buffer) {
      fill_input_buffer(cinfo);
      return;
    }
    source.next_input_byte += skipped;
    source.bytes_in_buffer -= skipped;
  }

  static void progress_monitor(j_common_ptr cinfo) {
    const auto* picture = reinterpret_cast<j_decompress_ptr>(cinfo);
    if (picture->input_scan_number <= kMaxScans) return;
    JpegState& self = state(cinfo);
    self.too_many_scans_ = true;
    longjmp(self.jump_, 1);
  }
};

bool JpegState::open(std::span<const std::byte> encoded) noexcept {
  close();
  ran_out_ = false;
  too_many_scans_ = false;
  code_ = 0;
  text_[0] = '\0';
  warning_[0] = '\0';
  warning_count_ = 0;
  encoded_bytes_ = encoded.size();
  encoded_end_ = encoded.data() + encoded.size();

  cinfo_.err = jpeg_std_error(&errors_);
  errors_.error_exit = Callbacks::error_exit;
  errors_.emit_message = Callbacks::emit_message;
  errors_.output_message = Callbacks::output_message;
  cinfo_.client_data = this;  // jpeg_create_decompress keeps this and `err`.
  created_ = guarded([](jpeg_decompress_struct& cinfo) { jpeg_create_decompress(&cinfo); });
  if (!created_) return false;

  source_.init_source = Callbacks::no_op;
  source_.fill_input_buffer = Callbacks::fill_input_buffer;
  source_.skip_input_data = Callbacks::skip_input_data;
  source_.resync_to_restart = jpeg_resync_to_restart;
  source_.term_source = Callbacks::no_op;
  source_.next_input_byte = reinterpret_cast<const JOCTET*>(encoded.data());
  source_.bytes_in_buffer = encoded.size();
  cinfo_.src = &source_;
  progress_.progress_monitor = Callbacks::progress_monitor;
  cinfo_.progress = &progress_;
  return true;
}

void JpegState::close() noexcept {
  if (created_) jpeg_destroy_decompress(&cinfo_);
  created_ = false;
}

Failure JpegState::failure() const {
  if (too_many_scans_) {
    return corrupt(fmt::format(
        "JPEG data: more than {} scans, above the limit for a progressive picture", kMaxScans));
  }
  const std::string text = lowered(text_);
  if (code_ == JERR_OUT_OF_MEMORY || code_ == JERR_NO_BACKING_STORE) {
    return {ErrorCode::kIo, fmt::format("JPEG data: {}; use fewer decode threads", text)};
  }
  if (is_unsupported(code_)) {
    return unsupported(fmt::format("a JPEG picture of an unsupported kind: {}", text));
  }
  if (ran_out_) {
    return corrupt(
        fmt::format("truncated JPEG data: it ends after {} bytes ({})", encoded_bytes_, text));
  }
  return corrupt(fmt::format("corrupt JPEG data before byte {} of {}: {}",
                             encoded_bytes_ - rest().size(), encoded_bytes_, text));
}

std::string JpegState::failure_text() const { return lowered(text_); }

std::string JpegState::warning_text() const { return lowered(warning_); }

std::span<const std::byte> JpegState::rest() const noexcept {
  if (ran_out_) return {};
  return {encoded_end_ - source_.bytes_in_buffer, source_.bytes_in_buffer};
}

std::uint64_t coefficient_bytes(const jpeg_decompress_struct& cinfo) noexcept {
  const auto round_up = [](std::uint64_t value, int multiple) {
    const auto step = static_cast<std::uint64_t>(multiple);
    return (value + step - 1) / step * step;
  };
  std::uint64_t blocks = 0;
  for (int i = 0; i < cinfo.num_components; ++i) {
    const jpeg_component_info& component = cinfo.comp_info[i];
    blocks += round_up(component.width_in_blocks, component.h_samp_factor) *
              round_up(component.height_in_blocks, component.v_samp_factor);
  }
  return blocks * DCTSIZE2 * sizeof(JCOEF);
}

}  // namespace feedrace::decode
