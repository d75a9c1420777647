// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "feedrace/decoder.h"
#include "feedrace/error.h"
#include "feedrace/format.h"

namespace feedrace::pack {

/// What to check of a data set, and how.
struct VerifyOptions {
  /// Which fields are pictures, where labels are. Nothing is stored, whatever it says of indexes.
  formats::OpenOptions format;
  /// Decode each picture, all of it, as the loader does.
  bool decodes = true;
  /// A picture that the decoder complains about and decodes all the same makes the set bad.
  bool refuses_flagged = true;
  std::uint64_t max_pixels = decode::DecodeLimits::kDefaultMaxPixels;
  /// Each sample of a shard must have these.
  std::vector<std::string> required_fields;
  /// Threads that read, hash and decode; 0: one for each usable core.
  std::size_t thread_count = 0;
  /// The list of bad samples, as JSON lines; put there when all is read. Empty: none.
  std::string bad_file;
  /// Told several times a second, on the caller's thread, how many samples are done and which share
  /// of the set. What it throws ends the work, and leaves `bad_file` as it was.
  std::function<void(std::uint64_t sample_count, double share)> progress;
};

/// What was found. Names in it are as they lie on disk, any bytes but 0; sentences are fit to
/// print.
struct VerifyReport {
  /// All findings of one kind, so that a million of them are still one.
  struct Finding {
    /// "structure", "manifest", "index", "field", "label", "picture", "key", "class".
    std::string check;
    bool is_bad = false;  ///< Otherwise something to know.
    std::string what;     ///< "pictures that can't be decoded".
    std::uint64_t count = 0;
    std::vector<std::string> examples;  ///< The first ones, in the order of the set: 5 at most.
  };
  struct Spread {
    std::uint64_t count = 0;
    std::uint64_t smallest = 0;
    std::uint64_t median = 0;  ///< To within 1 %, from below.
    std::uint64_t largest = 0;
    std::uint64_t sum = 0;
  };
  struct ClassCount {
    std::int64_t label = 0;
    std::uint64_t sample_count = 0;
  };
  struct Classes {
    std::uint64_t count = 0;  ///< With samples.
    ClassCount smallest;
    ClassCount largest;
    /// Class folders without pictures; of numbered classes those missing between 0 and the largest.
    std::uint64_t empty_count = 0;
    std::vector<std::int64_t> first_empty;  ///< 10 at most.
    bool is_known = true;  ///< False above a million different labels, which are no classes.
  };

  std::string kind;  ///< "webdataset shards", "image folder", "file list".
  std::uint64_t shard_count = 0;
  std::uint64_t shard_bytes = 0;
  std::uint64_t sample_count = 0;
  std::uint64_t picture_count = 0;     ///< Samples that have a picture.
  bool has_decoded = false;            ///< Pictures were to be decoded.
  std::uint64_t decoded_count = 0;     ///< Of those, pictures that gave pixels.
  std::uint64_t flagged_count = 0;     ///< Of those, with a complaint.
  std::uint64_t bad_sample_count = 0;  ///< Flagged ones are not among them.
  std::uint64_t checksum_count = 0;    ///< Shards whose bytes are as the manifest says.
  bool has_manifest = false;
  std::string index;  ///< "fresh", "stale", "none", "unreadable"; empty for files.
  std::map<std::string, std::uint64_t> fields;  ///< Samples that have each, of shards.
  Spread bytes;                                 ///< Of encoded pictures.
  Spread pixels;                                ///< Of decoded ones.
  std::optional<Classes> classes;               ///< Where there are labels.
  std::vector<Finding> findings;                ///< Bad ones first.
  std::size_t thread_count = 0;
  double seconds = 0;

  bool is_good() const noexcept;
  /// As `feedrace verify --json` prints it.
  std::string to_json() const;
  /// For a person, as the command line prints it: several lines.
  std::string to_text() const;
};

/// Reads a data set as the loader would, all of it, and says what is wrong. Memory does not grow
/// with shards: 256 MB for keys at most, more is sorted in a temporary file. Throws Error for what
/// keeps it from looking: kNotFound, kInvalidArgument, kIo (of `bad_file`); damage is in the
/// report.
VerifyReport verify(const std::vector<std::string>& sources, const VerifyOptions& options = {});

}  // namespace feedrace::pack
