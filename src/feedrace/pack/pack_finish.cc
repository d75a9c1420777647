// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/pack_finish.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/text.h"
#include "feedrace/formats/index_place.h"
#include "feedrace/formats/pending_file.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/formats/webdataset.h"
#include "feedrace/pack/checksum.h"
#include "feedrace/pack/picture_change.h"

namespace feedrace::pack {
namespace {

/// Of an index, a sample: offsets, sizes and label of a picture and its label, and its key.
constexpr std::uint64_t kIndexBytesPerSample = 96;
/// Crop indexes are at most 1.5 % of the data.
constexpr std::uint64_t kCropShare = 66;

/// Whether each shard is there in its size. Throws Error kCorruptData, which names the first that
/// is not.
void check_shards(const PackFolder& folder, const Manifest& manifest) {
  for (const Manifest::Shard& shard : manifest.shards) {
    struct stat status{};
    const bool is_there =
        fstatat(folder.fd(), shard.name.c_str(), &status, AT_SYMLINK_NOFOLLOW) == 0 &&
        S_ISREG(status.st_mode);
    if (is_there && static_cast<std::uint64_t>(status.st_size) == shard.size_bytes) continue;
    const std::string found =
        is_there ? fmt::format("{} bytes, and {} says {}", with_commas(status.st_size),
                               kManifestFile, with_commas(shard.size_bytes))
                 : fmt::format("not there, and {} has it", kManifestFile);
    throw Error(ErrorCode::kCorruptData,
                fmt::format("{}: {}; copy the shard again, or pack into an empty folder",
                            printable(folder.path_of(shard.name)), found));
  }
}

void make_index(const PackFolder& folder, const PackOptions& options, PackReport& report) {
  formats::OpenOptions format = options.format;
  format.store_index = formats::StoreIndex::kMust;
  format.make_crop_index = options.make_crop_index;
  format.label_file.clear();
  if (options.pictures.any()) format.image_fields = changed_fields(format.image_fields);
  if (options.progress) {
    format.crop_index_progress = [&](std::uint64_t picture_count, double share) {
      options.progress({PackProgress::Phase::kIndex, picture_count, 0, share});
    };
  }
  const auto set = formats::open_shards({folder.path()}, format, {});
  report.index_path = set->index_path();
  report.key_fingerprint = set->key_fingerprint();
  report.crop_index_count = set->crop_index_count();
  report.warnings = set->warnings();
}

/// "" where there is no class list.
std::string class_list_checksum(const PackFolder& folder) {
  const Result<std::string> checksum = checksum_of_file(folder.path_of(kClassListFile));
  if (checksum) return *checksum;
  if (checksum.error().code != ErrorCode::kNotFound) raise(checksum.error());
  return {};
}

/// Every journal, and the temporary files.
void remove_work(const PackFolder& folder) {
  const Result<std::vector<std::string>> names = folder.names();
  if (!names) raise(names.error());
  for (const std::string& name : *names) {
    if (!name.starts_with(kWorkPrefix) || name == lock_name({})) continue;
    if (const Result<void> removed = folder.remove(name); !removed) raise(removed.error());
  }
}

/// The prefix that the options of a journal or manifest name.
std::string prefix_of(const JournalHead& head) {
  return nlohmann::json::parse(head.options).value("prefix", PackOptions().prefix);
}

/// All shards by their journals. Throws Error kNotFound, which names those that are missing.
std::vector<JournalShard> gather(const PackFolder& folder, const FolderState& state,
                                 const JournalHead& head) {
  std::vector<JournalShard> shards;
  std::vector<std::string> missing;
  std::uint64_t missing_count = 0;
  const std::string prefix = prefix_of(head);
  for (std::uint64_t i = 0; i < head.shard_count; ++i) {
    const JournalShard* shard = state.finished(folder, prefix, i);
    if (shard != nullptr) {
      shards.push_back(*shard);
    } else if (++missing_count <= formats::kNamesListed + 1) {
      missing.push_back(shard_name(prefix, i));
    }
  }
  if (missing_count == 0) return shards;
  throw Error(ErrorCode::kNotFound,
              fmt::format("{}: {} of {} shards are missing: {}; pack the parts that have them",
                          printable(folder.path()), with_commas(missing_count),
                          with_commas(head.shard_count), formats::listed(missing)));
}

/// The head that all parts have in common. Throws Error kInvalidArgument where they differ.
JournalHead common_head(const PackFolder& folder, const FolderState& state) {
  const JournalHead& first = state.journals.begin()->second.head;
  for (const auto& [name, content] : state.journals) {
    const std::string difference = content.head.difference(first, /*is_same_run=*/false);
    if (difference.empty()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: not a part of the same set: {}; pack it into a folder of its own",
                            printable(folder.path_of(name)), difference));
  }
  return first;
}

std::uint64_t free_now(const PackFolder& folder) {
  const Result<std::uint64_t> free = folder.free_bytes();
  if (!free) raise(free.error());
  return *free;
}

/// What is to be packed fits already; this is for what is made of it.
void check_space(const PackFolder& folder, std::uint64_t needed_bytes) {
  const std::uint64_t free_bytes = free_now(folder);
  if (free_bytes >= needed_bytes) return;
  throw Error(ErrorCode::kIo,
              fmt::format("{}: index and manifest need {}, {} free; free {} more, then give the "
                          "same command again",
                          printable(folder.path()), human_bytes(needed_bytes),
                          human_bytes(free_bytes), human_bytes(needed_bytes - free_bytes)));
}

/// `finish_set` of parts, with what is missing where the disk is full.
void finish_set_of_parts(const PackFolder& folder, const PackOptions& options,
                         const Manifest& manifest, PackReport& report) {
  const std::uint64_t needed =
      kSpareBytes +
      index_bytes(manifest.sample_count(), manifest.size_bytes(), options.make_crop_index);
  check_space(folder, needed);
  try {
    finish_set(folder, options, manifest, report);
  } catch (const Error& error) {
    if (error.code() != ErrorCode::kIo || !says_full(error.what())) throw;
    throw full_disk_error(error, needed, free_now(folder));
  }
}

}  // namespace

std::uint64_t index_bytes(std::uint64_t sample_count, std::uint64_t payload_bytes,
                          bool has_crop_index) noexcept {
  return kIndexBytesPerSample * sample_count + (has_crop_index ? payload_bytes / kCropShare : 0);
}

Error full_disk_error(const Error& error, std::uint64_t needed_bytes, std::uint64_t free_bytes) {
  std::string_view message = error.what();
  // In its place comes what is more exact.
  if (message.ends_with(formats::kFullDiskAdvice)) {
    message.remove_suffix(formats::kFullDiskAdvice.size());
  }
  const std::string missing =
      needed_bytes <= free_bytes ? "" : human_bytes(needed_bytes - free_bytes) + " more of ";
  return {ErrorCode::kIo,
          fmt::format("{}; {}{} are needed: free them, then give the same command to go on",
                      message, missing, human_bytes(needed_bytes))};
}

Manifest manifest_of(const JournalHead& head, const std::vector<JournalShard>& shards) {
  Manifest manifest;
  manifest.source = head.source;
  manifest.options = manifest_options(head);
  manifest.left_out = head.left_out;
  for (const JournalShard& shard : shards) {
    manifest.shards.push_back(shard.shard);
    manifest.left_out.insert(manifest.left_out.end(), shard.left_out.begin(), shard.left_out.end());
  }
  return manifest;
}

void count(const Manifest& manifest, PackReport& report) {
  report.shard_count = manifest.shards.size();
  report.sample_count = manifest.sample_count();
  report.size_bytes = manifest.size_bytes();
  for (const Manifest::LeftOut& one : manifest.left_out) {
    report.left_out.push_back({one.key, one.reason});
    report.failed_count += one.reason.starts_with("excluded: ") ? 0 : 1;
  }
}

void remove_temporaries(const PackFolder& folder, const PackPart& part) {
  const Result<std::vector<std::string>> names = folder.names();
  if (!names) raise(names.error());
  const std::string prefix = std::string(kWorkPrefix) + part_tag(part);
  for (const std::string& name : *names) {
    if (!name.starts_with(prefix) || !name.ends_with(".tmp")) continue;
    if (const Result<void> removed = folder.remove(name); !removed) raise(removed.error());
  }
}

void finish_set(const PackFolder& folder, const PackOptions& options, const Manifest& manifest,
                PackReport& report) {
  check_shards(folder, manifest);
  formats::remove_abandoned_builds(folder.path());
  make_index(folder, options, report);
  Manifest whole = manifest;
  if (whole.classes_xxh3_128.empty()) whole.classes_xxh3_128 = class_list_checksum(folder);
  const Result<void> written = folder.write({}, kManifestFile, whole.to_json());
  if (!written) raise(written.error());
  report.manifest_path = folder.path_of(kManifestFile);
  remove_work(folder);
}

PackReport finish_parts(const PackOptions& wanted) {
  PackOptions options = wanted;
  const auto start = std::chrono::steady_clock::now();
  const Result<PackFolder> folder = PackFolder::open(options.folder, /*create=*/false);
  if (!folder) raise(folder.error());
  const Result<PackLock> lock = PackLock::take(*folder, {});
  if (!lock) raise(lock.error());
  const Result<FolderState> state = FolderState::read(*folder);
  if (!state) raise(state.error());
  PackReport report;
  Manifest manifest;
  if (!state->journals.empty()) {
    const JournalHead head = common_head(*folder, *state);
    options.make_crop_index |= head.makes_crop_index;
    manifest = manifest_of(head, gather(*folder, *state, head));
  } else if (state->manifest) {
    manifest = *state->manifest;
    report.finished_count = manifest.shards.size();
    report.was_packed = true;
  } else {
    throw Error(ErrorCode::kNotFound,
                fmt::format("{}: no parts of a packed set; pack them with --part first",
                            printable(options.folder)));
  }
  count(manifest, report);
  if (report.finished_count == 0) {
    finish_set_of_parts(*folder, options, manifest, report);
  } else {
    finish_set(*folder, options, manifest, report);
  }
  report.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return report;
}

}  // namespace feedrace::pack
