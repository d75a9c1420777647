// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/image_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/decoded_pictures.h"
#include "feedrace/formats/fingerprint.h"
#include "feedrace/formats/folder_crops.h"
#include "feedrace/formats/folder_walk.h"
#include "feedrace/formats/key_digest.h"
#include "feedrace/formats/parallel.h"
#include "feedrace/formats/phrases.h"

namespace feedrace::formats {
namespace {

class ImageFolder : public Dataset {
 public:
  ImageFolder(std::string root, RootListing root_listing, std::vector<ClassListing> listings)
      : root_(std::move(root)), classes_(std::move(root_listing.classes)) {
    Findings findings = std::move(root_listing.findings);
    std::size_t bytes = 0;
    std::size_t count = 0;
    for (const ClassListing& listing : listings) {
      bytes += listing.paths.bytes.size();
      count += listing.paths.size();
    }
    paths_.bytes.reserve(bytes);
    paths_.begins.reserve(count + 1);
    for (std::size_t i = 0; i < listings.size(); ++i) {
      findings.merge(listings[i].findings);
      if (listings[i].paths.size() == 0) {
        findings.add("class folders without images, which keep their number", classes_[i]);
      }
      take(std::exchange(listings[i].paths, {}));
    }
    warnings_ = findings.lines(root_);
    take_fingerprints();
  }

  std::string_view kind() const noexcept override { return "image folder"; }
  std::uint64_t size() const noexcept override { return paths_.size(); }
  Place place(std::uint64_t) const noexcept override { return {}; }
  std::string path(std::uint64_t sample) const override {
    return fmt::format("{}{}{}", root_, root_.ends_with('/') ? "" : "/", paths_[sample]);
  }
  std::string key(std::uint64_t sample) const override { return std::string(paths_[sample]); }
  Result<std::int64_t> label(std::uint64_t sample) const override { return class_of(sample); }
  std::string where(std::uint64_t sample) const override { return printable(path(sample)); }

  const std::vector<std::string>& shards() const noexcept override { return no_shards_; }
  const std::vector<std::string>& classes() const noexcept override { return classes_; }
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }
  std::string fingerprint() const override { return fingerprint_; }
  std::string key_fingerprint() const override { return key_fingerprint_; }
  std::string key_set_fingerprint() const override { return key_set_fingerprint_; }
  std::vector<Part> parts() const override {
    std::vector<Part> parts;
    parts.reserve(classes_.size());
    for (std::size_t i = 0; i < classes_.size(); ++i) {
      parts.push_back({classes_[i], class_begin(i), class_digests_[i]});
    }
    return parts;
  }
  std::span<const std::byte> crop_index(std::uint64_t sample) const noexcept override {
    return crops_.columns.of(sample);
  }
  std::uint64_t crop_index_count() const noexcept override { return crops_.count; }
  std::string crop_index_path() const override { return crops_.path; }
  CropIndexGaps crop_index_gaps() const override { return crops_.gaps; }
  std::string source_words(std::uint64_t) const override { return shell_word(root_); }
  std::uint64_t max_image_bytes() const noexcept override { return Place::kUnknownSize; }
  double mean_image_bytes() const noexcept override { return 0; }
  std::string label_source() const override { return "class folders"; }

  /// Finds or makes the crop indexes. Throws Error.
  void take_crops(const OpenOptions& options) {
    FolderCrops found = open_folder_crops(*this, root_, options);
    for (std::string& warning : found.warnings) warnings_.push_back(std::move(warning));
    crops_ = std::move(found);
  }

 private:
  /// Appends one class.
  void take(const NameList& paths) {
    const std::size_t shift = paths_.bytes.size();
    paths_.bytes += paths.bytes;
    for (std::size_t i = 1; i < paths.begins.size(); ++i) {
      paths_.begins.push_back(shift + paths.begins[i]);
    }
    class_ends_.push_back(paths_.size());
  }

  std::int64_t class_of(std::uint64_t sample) const noexcept {
    return std::upper_bound(class_ends_.begin(), class_ends_.end(), sample) - class_ends_.begin();
  }

  std::uint64_t class_begin(std::size_t number) const noexcept {
    return number == 0 ? 0 : class_ends_[number - 1];
  }

  void take_fingerprints() {
    Fingerprint whole;
    KeyDigest keys;
    for (std::size_t number = 0; number < classes_.size(); ++number) {
      Fingerprint part;
      for (std::uint64_t i = class_begin(number); i < class_ends_[number]; ++i) {
        whole.add_bytes(paths_[i]);
        whole.add_number(number);
        part.add_bytes(paths_[i]);
        keys.add(paths_[i], LabelState::kOk, static_cast<std::int64_t>(number));
      }
      class_digests_.push_back(part.text());
    }
    fingerprint_ = whole.text();
    key_fingerprint_ = keys.in_order();
    key_set_fingerprint_ = keys.as_set();
  }

  const std::string root_;
  const std::vector<std::string> classes_;
  const std::vector<std::string> no_shards_;
  NameList paths_;                         // Under the root, in order.
  std::vector<std::uint64_t> class_ends_;  // Number of the first sample behind each class.
  std::vector<std::string> warnings_;
  std::string fingerprint_;
  std::string key_fingerprint_;
  std::string key_set_fingerprint_;
  std::vector<std::string> class_digests_;
  FolderCrops crops_;
};

struct Listings {
  RootListing root;
  std::vector<ClassListing> classes;

  bool has_samples() const {
    return std::any_of(classes.begin(), classes.end(),
                       [](const ClassListing& one) { return one.paths.size() > 0; });
  }
};

Listings list_folder(const std::string& root, const Endings& endings, std::size_t thread_count) {
  Listings found{list_root(root, endings), {}};
  found.classes.resize(found.root.classes.size());
  parallel_for(found.classes.size(), thread_count, [&](std::size_t i) {
    found.classes[i] = list_class(root, found.root.classes[i], endings);
  });
  return found;
}

/// Arrays beside pictures are masks, depths and features more often than pictures: they are samples
/// only of a folder that has no other.
Listings list_pictures(const std::string& root, const OpenOptions& options) {
  // Folders wait for the disk, not for the core, when cold; two threads a core keep it busy.
  const std::size_t threads = options.thread_count != 0 ? options.thread_count : 2 * usable_cores();
  Listings found = list_folder(root, options.file_endings, threads);
  if (found.has_samples() || options.file_endings != OpenOptions().file_endings) return found;
  Endings endings;
  for (const std::string_view field : kDecodedFields) endings.push_back(fmt::format(".{}", field));
  Listings decoded = list_folder(root, endings, threads);
  return decoded.has_samples() ? std::move(decoded) : std::move(found);
}

}  // namespace

bool ImageFolderFormat::accepts(const std::vector<std::string>& sources) const {
  struct stat status{};
  return sources.size() == 1 && stat(sources[0].c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

std::unique_ptr<Dataset> ImageFolderFormat::open(const std::vector<std::string>& sources,
                                                 const OpenOptions& options) const {
  const std::string& root = sources.at(0);
  if (!options.label_file.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: label_file is given, but an image folder's labels are its class "
                            "folders; leave label_file out, or use a list of files",
                            printable(root)));
  }
  Listings found = list_pictures(root, options);
  const std::size_t class_count = found.classes.size();
  const std::size_t file_count = found.root.file_count;
  auto folder =
      std::make_unique<ImageFolder>(root, std::move(found.root), std::move(found.classes));
  if (folder->size() != 0) {
    folder->take_crops(options);
    return folder;
  }
  std::string message =
      fmt::format("{}: no images in class folders: found {} and {} directly under it",
                  printable(root), counted(class_count, "folder"), counted(file_count, "file"));
  if (!folder->warnings().empty()) {
    message += fmt::format(" ({})", fmt::join(folder->warnings(), "; "));
  }
  message += fmt::format(
      "; give a folder with one folder a class ({}), .tar shards, or a list with a label for "
      "each file (.csv .jsonl .txt .lst)",
      fmt::join(options.file_endings, " "));
  throw Error(ErrorCode::kNotFound, message);
}

}  // namespace feedrace::formats
