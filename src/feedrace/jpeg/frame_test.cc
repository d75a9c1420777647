// SPDX-License-Identifier: Apache-2.0
#include "feedrace/jpeg/frame.h"

#include <setjmp.h>

#include <optional>
#include <vector>

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "feedrace/jpeg/scan.h"
#include "feedrace/jpeg/test_jpegs.h"
#include "feedrace/jpeg/test_streams.h"

namespace feedrace::jpeg {
namespace {

using testing::append;
using testing::Bytes;
using testing::bytes_of;
using testing::segment;

/// The segments of a 4:2:0 picture of 20x10 pixels; tests change or leave out some.
struct Segments {
  Bytes start = bytes_of({0xff, 0xd8});
  Bytes app;  // What else stands in front.
  Bytes quant = bytes_of({0});
  unsigned frame_marker = 0xc0;
  Bytes frame = bytes_of({8, 0, 10, 0, 20, 3, 1, 0x22, 0, 2, 0x11, 0, 3, 0x11, 0});
  Bytes tables;
  Bytes more;  // Behind the frame.
  Bytes scan = bytes_of({3, 1, 0, 2, 0, 3, 0, 0, 63, 0});

  Segments() {
    quant.resize(65, std::byte{7});
    HuffmanSpec spec;
    spec.counts[0] = 1;
    append(tables, testing::table_content(0x00, spec));
    append(tables, testing::table_content(0x10, spec));
  }

  Bytes file() const {
    Bytes bytes = start;
    append(bytes, app);
    append(bytes, segment(0xdb, quant));
    append(bytes, segment(frame_marker, frame));
    append(bytes, segment(0xc4, tables));
    append(bytes, more);
    append(bytes, segment(0xda, scan));
    append(bytes, bytes_of({0, 0, 0, 0, 0xff, 0xd9}));
    return bytes;
  }
};

std::string unusual_in(const Bytes& file) {
  Frame frame;
  const char* unusual = read_frame(file, frame);
  return unusual == nullptr ? "" : unusual;
}

void set(Bytes& bytes, std::size_t at, unsigned value) {
  bytes.at(at) = static_cast<std::byte>(value);
}

TEST(Frame, SaysWhatTheSegmentsSay) {
  Segments segments;
  segments.more = segment(0xdd, bytes_of({1, 2}));
  const Bytes file = segments.file();
  Frame frame;
  ASSERT_EQ(read_frame(file, frame), nullptr);
  EXPECT_EQ(frame.width_px, 20U);
  EXPECT_EQ(frame.height_px, 10U);
  EXPECT_EQ(frame.component_count, 3U);
  EXPECT_EQ(frame.most_across, 2U);
  EXPECT_EQ(frame.most_down, 2U);
  EXPECT_EQ(frame.mcu_columns(), 2U);
  EXPECT_EQ(frame.mcu_rows(), 1U);
  EXPECT_EQ(frame.restart_interval, 0x102U);
  EXPECT_EQ(frame.quant[0][63], 7);
  EXPECT_EQ(frame.dc[0].counts[0], 1);
  EXPECT_EQ(frame.scan_at, file.size() - 6);
}

TEST(Frame, FillBytesCommentsAndUnknownApplicationsAreSteppedOver) {
  Segments segments;
  append(segments.app, bytes_of({0xff, 0xff, 0xff}));
  append(segments.app, segment(0xfe, bytes_of("a comment")));
  append(segments.app, segment(0xe1, bytes_of("\xff\xd8\xff\xda")));
  append(segments.app, segment(0xef, {}));
  EXPECT_EQ(unusual_in(segments.file()), "");
}

TEST(Frame, WhatOnlyASingleComponentsSamplingSaysMeansNothing) {
  Segments segments;
  segments.frame = bytes_of({8, 0, 10, 0, 20, 1, 9, 0x42, 0});
  segments.scan = bytes_of({1, 9, 0, 0, 63, 0});
  Frame frame;
  ASSERT_EQ(read_frame(segments.file(), frame), nullptr);
  EXPECT_EQ(frame.mcu_columns(), 3U);
  EXPECT_EQ(frame.mcu_rows(), 2U);
  EXPECT_EQ(frame.colour, ColourModel::kGrey);
}

TEST(Frame, EveryKindOfFrameThatIsNotOurs) {
  struct Kind {
    const char* name;
    std::vector<unsigned> markers;
  };
  const std::vector<Kind> kinds = {
      {"progressive", {0xc2}},
      {"lossless", {0xc3, 0xcb}},
      {"arithmetic coding", {0xc9, 0xca, 0xcc}},
      {"hierarchical", {0xde}},
      {"a kind of frame or segment",
       {0xc5, 0xc6, 0xc7, 0xc8, 0xcd, 0xce, 0xcf, 0xd8, 0xdc, 0xdf, 0xf0, 1}}};
  for (const Kind& kind : kinds) {
    for (const unsigned marker : kind.markers) {
      Segments segments;
      segments.frame_marker = marker;
      EXPECT_EQ(unusual_in(segments.file()), kind.name) << marker;
    }
  }
  Segments extended;
  extended.frame_marker = 0xc1;
  EXPECT_EQ(unusual_in(extended.file()), "");
}

TEST(Frame, EveryOddityOfAFrame) {
  struct Case {
    std::size_t at;
    unsigned value;
    const char* unusual;
  };
  for (const Case& odd : std::initializer_list<Case>{{0, 12, "12 bits"},
                                                     {0, 7, "precision"},
                                                     {2, 0, "no size"},
                                                     {4, 0, "no size"},
                                                     {5, 2, "component count"},
                                                     {5, 4, "four components, as in CMYK"},
                                                     {5, 0, "component count"},
                                                     {5, 1, "component count"},
                                                     {7, 0x02, "sampling"},
                                                     {7, 0x20, "sampling"},
                                                     {7, 0x52, "sampling"},
                                                     {7, 0x25, "sampling"},
                                                     {7, 0x31, "blocks in an MCU"},
                                                     {7, 0x13, "blocks in an MCU"},
                                                     {7, 0x14, "blocks in an MCU"},
                                                     {7, 0x43, "blocks in an MCU"},
                                                     {8, 4, "number of a quantisation table"},
                                                     {9, 1, "two components of one name"},
                                                     {12, 1, "two components of one name"},
                                                     {12, 2, "two components of one name"}}) {
    Segments segments;
    set(segments.frame, odd.at, odd.value);
    const std::string unusual = unusual_in(segments.file());
    // Whether the blocks are too many or their sampling is odd is one to libjpeg.
    const bool is_sampling = std::string_view(odd.unusual) == "blocks in an MCU";
    EXPECT_TRUE(unusual == odd.unusual || (is_sampling && unusual == "sampling"))
        << odd.at << " " << odd.value << ": " << unusual;
  }
  for (const std::size_t side : {1U, 3U}) {  // libjpeg's limit.
    Segments large;
    set(large.frame, side, 65'500 >> 8);
    set(large.frame, side + 1, 65'500 & 0xff);
    EXPECT_EQ(unusual_in(large.file()), "");
    set(large.frame, side + 1, 65'501 & 0xff);
    EXPECT_EQ(unusual_in(large.file()), "size");
  }
  Segments bulky;
  set(bulky.frame, 7, 0x42);
  set(bulky.frame, 10, 0x21);
  EXPECT_EQ(unusual_in(bulky.file()), "blocks in an MCU");
  Segments short_one;
  short_one.frame = bytes_of({8, 0, 10});
  EXPECT_EQ(unusual_in(short_one.file()), "precision");
  Segments twice;
  twice.more = segment(0xc0, twice.frame);
  EXPECT_EQ(unusual_in(twice.file()), "two frames");
}

TEST(Frame, EveryOddityOfTables) {
  const auto with = [](const Bytes& more) {
    Segments segments;
    segments.more = more;
    return unusual_in(segments.file());
  };
  Bytes table = bytes_of({0x00});
  table.resize(17, std::byte{0});
  EXPECT_EQ(with(segment(0xc4, table)), "");
  Bytes odd = table;
  for (const unsigned kind : {0x04U, 0x0fU, 0x14U, 0x20U, 0xffU}) {
    set(odd, 0, kind);
    EXPECT_EQ(with(segment(0xc4, odd)), "number of a Huffman table") << kind;
  }
  odd = table;
  odd.pop_back();
  EXPECT_EQ(with(segment(0xc4, odd)), "Huffman table");
  odd = table;
  set(odd, 16, 1);  // A code without a symbol.
  EXPECT_EQ(with(segment(0xc4, odd)), "Huffman table");
  odd = table;
  set(odd, 15, 200);
  set(odd, 16, 57);
  odd.resize(17 + 257);
  EXPECT_EQ(with(segment(0xc4, odd)), "Huffman table");
  Bytes quant = bytes_of({3});
  quant.resize(65, std::byte{1});
  EXPECT_EQ(with(segment(0xdb, quant)), "");
  set(quant, 0, 4);
  EXPECT_EQ(with(segment(0xdb, quant)), "quantisation table");
  set(quant, 0, 0x10);  // Of 16 bits.
  EXPECT_EQ(with(segment(0xdb, quant)), "quantisation table");
  set(quant, 0, 0);
  quant.pop_back();
  EXPECT_EQ(with(segment(0xdb, quant)), "quantisation table");
  EXPECT_EQ(with(segment(0xdd, bytes_of({1}))), "restart interval of an odd length");
  EXPECT_EQ(with(segment(0xdd, bytes_of({1, 2, 3}))), "restart interval of an odd length");
}

TEST(Frame, EveryOddityOfAScan) {
  struct Case {
    std::size_t at;
    unsigned value;
    const char* unusual;
  };
  for (const Case& odd :
       std::initializer_list<Case>{{0, 1, "several scans"},
                                   {0, 4, "several scans"},
                                   {1, 2, "components in another order"},
                                   {5, 9, "components in another order"},
                                   {2, 0x40, "number of a Huffman table"},
                                   {4, 0x04, "number of a Huffman table"},
                                   {2, 0x10, "a table is missing"},
                                   {4, 0x01, "a table is missing"},
                                   {7, 1, "scan of a part of the coefficients"},
                                   {8, 62, "scan of a part of the coefficients"},
                                   {8, 64, "scan of a part of the coefficients"},
                                   {9, 1, "scan of a part of the coefficients"},
                                   {9, 0x10, "scan of a part of the coefficients"}}) {
    Segments segments;
    set(segments.scan, odd.at, odd.value);
    EXPECT_EQ(unusual_in(segments.file()), odd.unusual) << odd.at << " " << odd.value;
  }
  Segments partial;
  partial.scan = bytes_of({1, 1, 0, 0, 63, 0});
  EXPECT_EQ(unusual_in(partial.file()), "several scans");
  Segments missing;
  set(missing.frame, 8, 1);
  EXPECT_EQ(unusual_in(missing.file()), "a table is missing");
  Bytes frameless = bytes_of({0xff, 0xd8});
  append(frameless, segment(0xda, partial.scan));
  EXPECT_EQ(unusual_in(frameless), "scan without a frame");
}

TEST(Frame, LengthsThatLieAndFilesThatEnd) {
  EXPECT_EQ(unusual_in({}), "no start marker");
  EXPECT_EQ(unusual_in(bytes_of({0xff})), "no start marker");
  EXPECT_EQ(unusual_in(bytes_of({0xff, 0xd9, 0xff, 0xd8})), "no start marker");
  const Segments segments;
  const Bytes file = segments.file();
  for (std::size_t size = 2; size < file.size() - 6; ++size) {
    const Bytes cut(file.begin(), file.begin() + static_cast<std::ptrdiff_t>(size));
    const std::string unusual = unusual_in(cut);
    EXPECT_TRUE(unusual == "no scan" || unusual == "length of a segment") << size << unusual;
  }
  for (const unsigned length : {0U, 1U, 0xffffU}) {
    Bytes lying = file;
    set(lying, 4, length >> 8);
    set(lying, 5, length & 0xffU);
    EXPECT_EQ(unusual_in(lying), "length of a segment") << length;
  }
  Segments gap;
  gap.app = bytes_of({0});
  EXPECT_EQ(unusual_in(gap.file()), "bytes between segments");
}

// ---- What libjpeg makes of it ----

struct LibjpegHeader {
  std::uint32_t width_px = 0;
  std::uint32_t height_px = 0;
  int component_count = 0;
  int most_across = 0;
  int most_down = 0;
  unsigned restart_interval = 0;
  J_COLOR_SPACE colour = JCS_UNKNOWN;
  long warning_count = 0;
  bool starts = false;  ///< Its tables are some, too.
};

/// Empty where libjpeg refuses.
std::optional<LibjpegHeader> libjpeg_header(const Bytes& file) {
  static jmp_buf jump;
  static LibjpegHeader header;
  static bool is_read;
  header = {};
  is_read = false;
  jpeg_decompress_struct cinfo{};
  jpeg_error_mgr errors{};
  cinfo.err = jpeg_std_error(&errors);
  errors.error_exit = [](j_common_ptr) { longjmp(jump, 1); };
  errors.output_message = [](j_common_ptr) {};
  jpeg_create_decompress(&cinfo);
  if (setjmp(jump) == 0) {
    jpeg_mem_src(&cinfo, reinterpret_cast<const unsigned char*>(file.data()), file.size());
    jpeg_read_header(&cinfo, TRUE);
    header = {cinfo.image_width,       cinfo.image_height,      cinfo.num_components,
              cinfo.max_h_samp_factor, cinfo.max_v_samp_factor, cinfo.restart_interval,
              cinfo.jpeg_color_space,  errors.num_warnings,     false};
    is_read = true;
    jpeg_start_decompress(&cinfo);
    header.starts = true;
  }
  jpeg_destroy_decompress(&cinfo);
  if (!is_read) return {};
  return header;
}

/// Empty when libjpeg takes what ours takes, and sees the same and no reason to warn.
std::string disagreement(const Bytes& file, int& accepted_count) {
  Frame frame;
  if (read_frame(file, frame) != nullptr) return "";
  ++accepted_count;
  const auto header = libjpeg_header(file);
  if (!header) return "libjpeg refuses it";
  if (header->warning_count > 0) return "libjpeg warns";
  if (header->width_px != frame.width_px || header->height_px != frame.height_px) return "size";
  if (static_cast<std::uint32_t>(header->component_count) != frame.component_count) return "count";
  if (header->restart_interval != frame.restart_interval) return "restart interval";
  if (frame.component_count == 3 &&
      (static_cast<std::uint32_t>(header->most_across) != frame.most_across ||
       static_cast<std::uint32_t>(header->most_down) != frame.most_down)) {
    return "sampling";
  }
  const J_COLOR_SPACE colour = frame.colour == ColourModel::kGrey  ? JCS_GRAYSCALE
                               : frame.colour == ColourModel::kYcc ? JCS_YCbCr
                                                                   : JCS_RGB;
  if (header->colour != colour) return "colour";
  TableCache tables;
  Scan scan(*entropy_kernels().back());
  if (scan.start(file, frame, tables) && !header->starts) return "libjpeg does not start";
  return "";
}

TEST(Frame, LibjpegAcceptsWhatOursAccepts) {
  SampleRandom random(1, 0, 0, 0);
  int accepted_count = 0;
  for (int i = 0; i < 200; ++i) {
    testing::JpegKind kind = testing::random_kind(random, 20);
    const Bytes sound = testing::make_jpeg(kind);
    Frame frame;
    const std::size_t header_size = read_frame(sound, frame) == nullptr ? frame.scan_at : 100;
    for (int k = 0; k < 100; ++k) {
      Bytes file = sound;
      for (std::uint64_t changes = 1 + random.below(2); changes > 0; --changes) {
        file.at(2 + random.below(header_size - 2)) = static_cast<std::byte>(random.next());
      }
      ASSERT_EQ(disagreement(file, accepted_count), "") << kind.text() << " change " << k;
    }
  }
  EXPECT_GT(accepted_count, 2000);
}

/// Which colours three components hold, by what stands in front and how they are named.
TEST(Frame, ColoursAreGuessedAsLibjpegGuesses) {
  const Bytes jfif = segment(0xe0, bytes_of(std::string_view("JFIF\0\1\1\0\0\1\0\1\0\0", 14)));
  const Bytes short_jfif = segment(0xe0, bytes_of(std::string_view("JFIF\0\1\1\0\0\1\0\1\0", 13)));
  const Bytes new_jfif = segment(0xe0, bytes_of(std::string_view("JFIF\0\2\1\0\0\1\0\1\0\0", 14)));
  const auto adobe = [](unsigned transform, std::size_t size = 12) {
    Bytes content = bytes_of(std::string_view("Adobe\0\x64\0\0\0\0", 11));
    content.push_back(static_cast<std::byte>(transform));
    content.resize(size);
    return segment(0xee, content);
  };
  int accepted_count = 0;
  for (const Bytes& first : {Bytes{}, jfif, short_jfif, new_jfif, adobe(0), adobe(1), adobe(2),
                             adobe(0, 11), adobe(1, 20)}) {
    for (const Bytes& second : {Bytes{}, jfif, adobe(0), adobe(1), adobe(255), adobe(0, 11)}) {
      for (const std::string_view names : {"\1\2\3", "RGB", "rgb", "RGA", "YCc", "\3\2\1"}) {
        Segments segments;
        append(segments.app, first);
        append(segments.app, second);
        for (std::size_t i = 0; i < 3; ++i) {
          set(segments.frame, 6 + 3 * i, static_cast<unsigned char>(names[i]));
          set(segments.scan, 1 + 2 * i, static_cast<unsigned char>(names[i]));
        }
        EXPECT_EQ(disagreement(segments.file(), accepted_count), "")
            << names << " " << first.size() << " " << second.size();
      }
    }
  }
  EXPECT_GT(accepted_count, 150);
}

}  // namespace
}  // namespace feedrace::jpeg
