// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/image_folder.h"

#include <sys/stat.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/fingerprint.h"
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
  std::uint64_t max_image_bytes() const noexcept override { return Place::kUnknownSize; }
  double mean_image_bytes() const noexcept override { return 0; }
  std::string label_source() const override { return "class folders"; }

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
};

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
  RootListing listing = list_root(root, options.file_endings);
  std::vector<ClassListing> classes(listing.classes.size());
  // Folders wait for the disk, not for the core, when cold; two threads a core keep it busy.
  const std::size_t threads = options.thread_count != 0 ? options.thread_count : 2 * usable_cores();
  parallel_for(classes.size(), threads, [&](std::size_t i) {
    classes[i] = list_class(root, listing.classes[i], options.file_endings);
  });
  const std::size_t class_count = classes.size();
  const std::size_t file_count = listing.file_count;
  auto folder = std::make_unique<ImageFolder>(root, std::move(listing), std::move(classes));
  if (folder->size() != 0) return folder;
  std::string message =
      fmt::format("{}: no images in class folders: found {} and {} directly under it",
                  printable(root), counted(class_count, "folder"), counted(file_count, "file"));
  if (!folder->warnings().empty()) {
    message += fmt::format(" ({})", fmt::join(folder->warnings(), "; "));
  }
  message += fmt::format("; give a folder with one folder a class ({}), or .tar shards",
                         fmt::join(options.file_endings, " "));
  throw Error(ErrorCode::kNotFound, message);
}

}  // namespace feedrace::formats
