// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/shard_unit.h"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/labels.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/pack/checksum.h"
#include "feedrace/pack/shard_pictures.h"

namespace feedrace::pack {
namespace {

using formats::LabelState;
using formats::ShardScan;

constexpr std::size_t kSamplesAPiece = 64;
/// A larger picture is refused before memory is taken for it.
constexpr std::uint64_t kMaxPictureBytes = std::uint64_t{1} << 30;
constexpr std::uint64_t kMaxLabelBytes = std::uint64_t{1} << 20;

std::size_t pieces_for(std::size_t samples) {
  return (samples + kSamplesAPiece - 1) / kSamplesAPiece;
}

/// The shard while its pieces are checked.
class ShardUnit : public VerifyUnit {
 public:
  ShardUnit(std::string path, ShardScan scan, ShardPictures pictures, formats::FileSource source,
            const Manifest::Shard* promised, bool decodes)
      : path_(std::move(path)),
        scan_(std::move(scan)),
        pictures_(std::move(pictures)),
        source_(std::move(source)),
        promised_(promised),
        decodes_(decodes) {}

  std::size_t piece_count() const noexcept override {
    return checksum_pieces() + (decodes_ ? pieces_for(scan_.sample_count()) : 1);
  }

  std::uint64_t samples_of_piece(std::size_t piece) const noexcept override {
    if (piece < checksum_pieces()) return 0;
    const auto [begin, end] = samples_of(piece);
    return end - begin;
  }

  void check(std::size_t piece, VerifyThread& thread, PieceFindings& findings) const override {
    if (piece < checksum_pieces()) return check_sum(thread, findings);
    if (!decodes_) return;
    const auto [begin, end] = samples_of(piece);
    for (std::size_t i = begin; i < end; ++i) {
      if (pictures_.members()[i]) check_picture(i, *pictures_.members()[i], thread, findings);
    }
  }

 private:
  std::size_t checksum_pieces() const noexcept { return promised_ == nullptr ? 0 : 1; }

  std::pair<std::size_t, std::size_t> samples_of(std::size_t piece) const noexcept {
    if (!decodes_) return {0, scan_.sample_count()};
    const std::size_t begin = (piece - checksum_pieces()) * kSamplesAPiece;
    return {begin, std::min(begin + kSamplesAPiece, scan_.sample_count())};
  }

  void check_sum(VerifyThread& thread, PieceFindings& findings) const {
    const std::string name = printable(formats::base_name(path_));
    const Result<std::string> sum = checksum_of(source_);
    if (!sum) {
      findings.found.push_back(
          {"manifest", true, "shards whose bytes can't be read", 1, {sum.error().message}});
    } else if (*sum != promised_->xxh3_128) {
      findings.found.push_back(
          {"manifest",
           true,
           "shards whose bytes are not those that were packed",
           1,
           {fmt::format("{}: checksum {}, and {} says {}; copy the shard again, or pack it anew",
                        name, *sum, kManifestFile, promised_->xxh3_128)}});
    } else {
      ++thread.totals.checksum_count;
    }
  }

  void check_picture(std::size_t sample, std::size_t member, VerifyThread& thread,
                     PieceFindings& findings) const {
    const Result<PictureCheck::Outcome> outcome = decode(member, thread.pictures);
    if (outcome && outcome->complaint.empty()) {
      ++thread.totals.decoded_count;
      thread.totals.pixels.add(outcome->pixel_count);
      return;
    }
    BadSample bad = pictures_.describe(scan_, path_, sample);
    bad.code = "flagged";
    bad.reason = where_of(bad, scan_.field_names[scan_.field[member]]) + ": ";
    if (outcome) {
      ++thread.totals.decoded_count;
      ++thread.totals.flagged_count;
      thread.totals.pixels.add(outcome->pixel_count);
      bad.reason += outcome->complaint;
    } else {
      bad.code = to_string(outcome.error().code == ErrorCode::kIo ? ErrorCode::kIo
                                                                  : ErrorCode::kCorruptData);
      bad.reason += outcome.error().message;
    }
    findings.bad.push_back(std::move(bad));
  }

  Result<PictureCheck::Outcome> decode(std::size_t member, PictureCheck& pictures) const {
    const std::uint64_t size = scan_.size_bytes[member];
    if (size > kMaxPictureBytes) {
      return Failure{ErrorCode::kCorruptData,
                     fmt::format("{} bytes; a picture may have 1 GiB", with_commas(size))};
    }
    const std::span<std::byte> bytes = pictures.memory(static_cast<std::size_t>(size));
    const std::span<char> chars(reinterpret_cast<char*>(bytes.data()), bytes.size());
    const Result<std::size_t> got = source_.read(scan_.offset_bytes[member], chars);
    if (!got) return got.error();
    if (*got != bytes.size()) {
      return Failure{ErrorCode::kIo, "the shard became shorter while it was verified"};
    }
    return pictures.check(bytes);
  }

  const std::string path_;
  const ShardScan scan_;
  const ShardPictures pictures_;
  const formats::FileSource source_;
  const Manifest::Shard* promised_;
  const bool decodes_;
};

/// What opening a shard finds, besides the scan itself.
class ShardChecks {
 public:
  ShardChecks(const ShardSources& sources, std::size_t number, const VerifyOptions& options,
              const ShardScan& scan, const ShardPictures& pictures, PieceFindings& findings)
      : sources_(sources),
        number_(number),
        path_(sources.paths[number]),
        options_(options),
        scan_(scan),
        pictures_(pictures),
        findings_(findings) {}

  void run(VerifyTotals& totals) {
    take_findings();
    count(totals);
    check_fields();
    check_labels(totals);
    check_index();
    check_manifest();
  }

 private:
  void add(const char* check, bool is_bad, std::string what, std::string example,
           std::uint64_t count = 1) {
    findings_.found.push_back({check, is_bad, std::move(what), count, {std::move(example)}});
  }

  std::string name() const { return printable(formats::base_name(path_)); }

  void take_findings() {
    for (const formats::Findings::Kind& kind : scan_.findings.kinds()) {
      Found found{"structure", formats::says_damage(kind.what), kind.what, kind.count, {}};
      for (const std::string& one : kind.names) {
        found.examples.push_back(one.empty() ? name() : name() + ": " + printable(one));
      }
      findings_.found.push_back(std::move(found));
    }
  }

  void count(VerifyTotals& totals) const {
    std::vector<std::uint64_t> fields(scan_.field_names.size());
    for (const std::uint16_t field : scan_.field) ++fields[field];
    for (std::size_t i = 0; i < fields.size(); ++i) {
      // A name that only samples that were left out have.
      if (fields[i] > 0) totals.fields[scan_.field_names[i]] += fields[i];
    }
    totals.sample_count += scan_.sample_count();
    totals.picture_count += pictures_.count();
    for (const auto& member : pictures_.members()) {
      if (member) totals.bytes.add(scan_.size_bytes[*member]);
    }
  }

  BadSample describe(std::size_t sample) const { return pictures_.describe(scan_, path_, sample); }

  void check_fields() {
    for (const std::string& wanted : options_.required_fields) {
      const auto at = std::find(scan_.field_names.begin(), scan_.field_names.end(), wanted);
      const auto number = static_cast<std::uint16_t>(at - scan_.field_names.begin());
      for (std::size_t i = 0; i < scan_.sample_count(); ++i) {
        const auto begin = scan_.field.begin() + static_cast<std::ptrdiff_t>(scan_.first_member[i]);
        const auto end =
            scan_.field.begin() + static_cast<std::ptrdiff_t>(scan_.first_member[i + 1]);
        if (at == scan_.field_names.end() || std::find(begin, end, number) == end) {
          miss_field(i, wanted);
        }
      }
    }
  }

  void miss_field(std::size_t sample, const std::string& wanted) {
    BadSample bad = describe(sample);
    std::vector<std::string> there;
    for (std::uint64_t m = scan_.first_member[sample]; m < scan_.first_member[sample + 1]; ++m) {
      there.push_back(scan_.field_names[scan_.field[m]]);
    }
    bad.code = to_string(ErrorCode::kCorruptData);
    bad.reason = fmt::format("{}: no field {}, which is required; its fields are {}",
                             where_of(bad, ""), printable(wanted), formats::listed(there));
    add("field", true, fmt::format("samples without the required field {}", printable(wanted)),
        bad.reason);
    findings_.bad.push_back(std::move(bad));
  }

  void check_labels(VerifyTotals& totals) {
    std::uint64_t missing = 0;
    for (std::size_t i = 0; i < scan_.sample_count(); ++i) {
      if (!pictures_.members()[i]) continue;
      const auto state = static_cast<LabelState>(scan_.label_state[i]);
      if (state == LabelState::kOk) totals.classes.add(scan_.label[i]);
      if (state != LabelState::kMissing) ++totals.labelled_count;
      if (state == LabelState::kMissing) ++missing;
      if (state == LabelState::kBad) bad_label(i);
    }
    // Whether others have one is known at the end.
    if (missing > 0) add("label", true, kMissingLabels, name(), missing);
  }

  void bad_label(std::size_t sample) {
    BadSample bad = describe(sample);
    bad.code = to_string(ErrorCode::kCorruptData);
    bad.reason = where_of(bad, "") + ": " + label_fault(sample);
    add("label", true, "labels that are no whole number", bad.reason);
    findings_.bad.push_back(std::move(bad));
  }

  /// Reads a bad label again, to say what is wrong with it.
  std::string label_fault(std::size_t sample) const {
    std::optional<std::size_t> best;
    int rank = 0;
    for (std::uint64_t m = scan_.first_member[sample]; m < scan_.first_member[sample + 1]; ++m) {
      const int own = sources_.labels.rank(scan_.field_names[scan_.field[m]]);
      if (own <= rank) continue;
      rank = own;
      best = static_cast<std::size_t>(m);
    }
    if (!best) return "label is no whole number";
    const std::string& field = scan_.field_names[scan_.field[*best]];
    const std::string place = fmt::format("field {}: ", printable(field));
    if (scan_.size_bytes[*best] > kMaxLabelBytes) {
      return fmt::format("{}{} bytes are no label", place, with_commas(scan_.size_bytes[*best]));
    }
    std::string text(static_cast<std::size_t>(scan_.size_bytes[*best]), '\0');
    const auto source = formats::FileSource::open(path_);
    const auto got = source ? source->read(scan_.offset_bytes[*best], text)
                            : Result<std::size_t>(source.error());
    if (!got) return place + got.error().message;
    if (formats::is_json_field(field)) {
      const auto parsed = formats::parse_json_label(text, sources_.labels.json_key);
      return place + (parsed ? "no label" : parsed.error().message);
    }
    const auto parsed = formats::parse_label(text);
    return place + (parsed ? "too long for a label" : parsed.error().message);
  }

  /// A loader would take the index as it is, by size and time of the shard; does it say what is
  /// there?
  void check_index() {
    if (!sources_.index) return;
    const formats::ShardIndex& index = *sources_.index;
    const Result<ShardScan> stored = index.extract(number_);
    const auto wrong = [&](const std::string& reason) {
      add("index", true, "shards of which the stored index says something else",
          fmt::format("{}: {}; make the index anew with feedrace index --rebuild", name(), reason));
    };
    if (!stored) return wrong(stored.error().message);
    if (stored->identity.hash != scan_.identity.hash) return wrong("head or tail of other bytes");
    if (stored->keys != scan_.keys || stored->key_begin != scan_.key_begin) {
      return wrong("other keys");
    }
    const bool same_places = stored->first_member == scan_.first_member &&
                             stored->offset_bytes == scan_.offset_bytes &&
                             stored->size_bytes == scan_.size_bytes;
    if (!same_places) return wrong("other offsets or sizes");
    for (std::size_t m = 0; m < scan_.member_count(); ++m) {
      if (stored->field_names[stored->field[m]] != scan_.field_names[scan_.field[m]]) {
        return wrong("other fields");
      }
    }
    if (stored->label != scan_.label || stored->label_state != scan_.label_state) {
      return wrong("other labels");
    }
  }

  void check_manifest() {
    const auto& promised = sources_.promised[number_];
    if (!promised || promised->sample_count == scan_.sample_count()) return;
    add("manifest", true, "shards with another number of samples than were packed",
        fmt::format("{}: {} samples, and {} says {}", name(), scan_.sample_count(), kManifestFile,
                    promised->sample_count));
  }

  const ShardSources& sources_;
  const std::size_t number_;
  const std::string& path_;
  const VerifyOptions& options_;
  const ShardScan& scan_;
  const ShardPictures& pictures_;
  PieceFindings& findings_;
};

}  // namespace

OpenedUnit open_shard_unit(const ShardSources& sources, std::size_t number,
                           const VerifyOptions& options, VerifyThread& thread) {
  OpenedUnit opened;
  const std::string& path = sources.paths[number];
  const auto unreadable = [&](const std::string& message) {
    opened.findings.found.push_back(
        {"structure", true, "shards that can't be read to their end", 1, {message}});
    return std::move(opened);
  };
  Result<ShardScan> scan = formats::scan_shard_file(path, sources.labels);
  if (!scan) return unreadable(scan.error().message);
  Result<formats::FileSource> source = formats::FileSource::open(path);
  if (!source) return unreadable(source.error().message);
  ShardPictures pictures(*scan, options.format.image_fields);
  ShardChecks(sources, number, options, *scan, pictures, opened.findings).run(thread.totals);
  opened.picture_count = pictures.count();
  for (std::size_t i = 0; i < scan->sample_count(); ++i) {
    opened.key_hashes.push_back(formats::hash_of(scan->key(i)));
  }
  const Manifest::Shard* promised = sources.promised[number] ? &*sources.promised[number] : nullptr;
  const bool has_size = promised != nullptr && promised->size_bytes == scan->identity.size_bytes;
  if (promised != nullptr && !has_size) {
    opened.findings.found.push_back(
        {"manifest",
         true,
         "shards whose bytes are not those that were packed",
         1,
         {fmt::format("{}: {} bytes, and {} says {}; copy the shard again, or pack it anew",
                      printable(formats::base_name(path)), scan->identity.size_bytes, kManifestFile,
                      promised->size_bytes)}});
  }
  opened.unit =
      std::make_unique<ShardUnit>(path, *std::move(scan), std::move(pictures), *std::move(source),
                                  has_size ? promised : nullptr, options.decodes);
  return opened;
}

}  // namespace feedrace::pack
