// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/file_unit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/tar_reader.h"

namespace feedrace::pack {
namespace {

constexpr std::uint64_t kFilesAPiece = 64;
constexpr std::uint64_t kMaxPictureBytes = std::uint64_t{1} << 30;

class FileUnit : public VerifyUnit {
 public:
  FileUnit(const formats::Dataset& set, std::uint64_t begin, std::uint64_t end, bool decodes)
      : set_(set), begin_(begin), end_(end), decodes_(decodes) {}

  std::size_t piece_count() const noexcept override {
    return static_cast<std::size_t>((end_ - begin_ + kFilesAPiece - 1) / kFilesAPiece);
  }

  std::uint64_t samples_of_piece(std::size_t piece) const noexcept override {
    return piece_end(piece) - piece_begin(piece);
  }

  void check(std::size_t piece, VerifyThread& thread, PieceFindings& findings) const override {
    for (std::uint64_t i = piece_begin(piece); i < piece_end(piece); ++i) {
      check_file(i, thread, findings);
    }
  }

 private:
  std::uint64_t piece_begin(std::size_t piece) const noexcept {
    return begin_ + piece * kFilesAPiece;
  }
  std::uint64_t piece_end(std::size_t piece) const noexcept {
    return std::min(piece_begin(piece) + kFilesAPiece, end_);
  }

  void check_file(std::uint64_t sample, VerifyThread& thread, PieceFindings& findings) const {
    const Result<PictureCheck::Outcome> outcome = look_at(sample, thread);
    if (outcome && outcome->complaint.empty()) return;
    BadSample bad = describe_file(set_, sample);
    bad.sample = sample - begin_;
    const std::string path = printable(set_.path(sample)) + ": ";
    const std::string& message = outcome ? outcome->complaint : outcome.error().message;
    bad.reason = message.starts_with(path) ? message : path + message;
    const bool is_io = !outcome && (outcome.error().code == ErrorCode::kIo ||
                                    outcome.error().code == ErrorCode::kNotFound);
    bad.code = outcome ? "flagged" : to_string(is_io ? ErrorCode::kIo : ErrorCode::kCorruptData);
    findings.bad.push_back(std::move(bad));
  }

  /// Opens the file and, unless it shall not be, decodes it.
  Result<PictureCheck::Outcome> look_at(std::uint64_t sample, VerifyThread& thread) const {
    const Result<formats::FileSource> source = formats::FileSource::open(set_.path(sample));
    if (!source) return source.error();
    const std::uint64_t size = source->size_bytes();
    thread.totals.bytes.add(size);
    if (!decodes_) return PictureCheck::Outcome{};
    if (size > kMaxPictureBytes) {
      return Failure{ErrorCode::kCorruptData,
                     fmt::format("{} bytes; a picture may have 1 GiB", with_commas(size))};
    }
    const std::span<std::byte> bytes = thread.pictures.memory(static_cast<std::size_t>(size));
    const std::span<char> chars(reinterpret_cast<char*>(bytes.data()), bytes.size());
    const Result<std::size_t> got = source->read(0, chars);
    if (!got) return got.error();
    Result<PictureCheck::Outcome> outcome = thread.pictures.check(bytes.first(*got));
    if (outcome) {
      ++thread.totals.decoded_count;
      thread.totals.pixels.add(outcome->pixel_count);
      if (!outcome->complaint.empty()) ++thread.totals.flagged_count;
    }
    return outcome;
  }

  const formats::Dataset& set_;
  const std::uint64_t begin_;
  const std::uint64_t end_;
  const bool decodes_;
};

}  // namespace

OpenedUnit open_file_unit(const formats::Dataset& set, std::size_t number,
                          const VerifyOptions& options, VerifyThread& thread) {
  const std::uint64_t begin = number * kFilesAUnit;
  const std::uint64_t end = std::min(begin + kFilesAUnit, set.size());
  OpenedUnit opened;
  opened.picture_count = end - begin;
  thread.totals.sample_count += end - begin;
  thread.totals.picture_count += end - begin;
  const bool is_labelled = !set.classes().empty() || !set.label_source().starts_with("none");
  for (std::uint64_t i = begin; i < end; ++i) {
    opened.key_hashes.push_back(formats::hash_of(formats::canonical_key(set.key(i))));
    const Result<std::int64_t> label = set.label(i);
    if (label && is_labelled) thread.totals.classes.add(*label);
  }
  opened.unit = std::make_unique<FileUnit>(set, begin, end, options.decodes);
  return opened;
}

BadSample describe_file(const formats::Dataset& set, std::uint64_t sample) {
  BadSample described;
  described.key = set.key(sample);
  described.sample = sample;
  return described;
}

}  // namespace feedrace::pack
