// SPDX-License-Identifier: Apache-2.0
// The samples of an image folder: a picture, the number of its class, and what lies beside it under
// the same name with other endings.

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/folder_walk.h"
#include "feedrace/formats/member_name.h"
#include "feedrace/formats/parallel.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/pack/pack_source.h"
#include "feedrace/pack/source_files.h"

namespace feedrace::pack {
namespace {

/// Files of one class folder, those of a sample one behind the other.
struct ClassFiles {
  formats::NameList paths;                   ///< Under the root: the picture, then its companions.
  std::vector<std::uint64_t> first_file{0};  ///< Of each sample, and the number of all.
  std::uint64_t picture_fields = 0;          ///< Pictures that are a field of another one's sample.
  std::uint64_t strays = 0;                  ///< Files that belong to no picture.
  std::string stray;                         ///< The first of them.
  std::vector<SourceDamage> damage;
};

std::vector<SourceDamage> unreadable_folders(const formats::Findings& findings) {
  std::vector<SourceDamage> damage;
  for (const formats::Findings::Kind& kind : findings.kinds()) {
    if (!kind.what.starts_with(formats::kUnreadableFolders)) continue;
    const std::string& first = kind.names.front();
    damage.push_back({ErrorCode::kIo, first,
                      fmt::format("{}: {} ({} in all)", printable(first), kind.what, kind.count)});
  }
  return damage;
}

std::string_view base_of(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// Files of one folder with the same key.
using Group = std::vector<std::string_view>;

[[noreturn]] void refuse_pair(const std::string& root, std::string_view a, std::string_view b) {
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("{0}/{1} and {0}/{2}: both would have the key {3} in the shards, where a "
                          "key ends at the first dot; rename one of them",
                          printable(root), printable(a), printable(b),
                          printable(formats::canonical_key(a))));
}

/// Of several pictures with one key the one that is the sample's own: a.jpg rather than a.mask.png.
/// Nothing where the group has no picture.
std::string_view picture_of(const std::string& root, const Group& group,
                            const formats::Endings& endings) {
  std::string_view plain;
  std::string_view other;
  for (const std::string_view path : group) {
    if (!formats::has_ending_of(path, endings)) continue;
    const std::string_view base = base_of(path);
    std::string_view& found = base.find('.') == base.rfind('.') ? plain : other;
    const bool is_second = !found.empty() && (&found == &plain || plain.empty());
    if (is_second) refuse_pair(root, found, path);
    found = path;
  }
  return plain.empty() ? other : plain;
}

/// Gathers the files of a class: names of one key are neighbours, as the list is sorted.
class Grouping {
 public:
  Grouping(const std::string& root, const formats::Endings& endings, ClassFiles& out)
      : root_(root), endings_(endings), out_(out) {}

  void run(const formats::NameList& paths) {
    Group group;
    for (std::size_t i = 0; i < paths.size(); ++i) {
      const std::string_view path = paths[i];
      const std::size_t dot = base_of(path).find('.');
      if (dot == std::string_view::npos || dot + 1 == base_of(path).size()) {
        stray({path});
        continue;
      }
      const bool is_same =
          !group.empty() && formats::canonical_key(group.front()) == formats::canonical_key(path);
      if (!is_same) close(group);
      group.push_back(path);
    }
    close(group);
  }

 private:
  void close(Group& group) {
    if (group.empty()) return;
    const std::string_view picture = picture_of(root_, group, endings_);
    if (picture.empty()) {
      stray(group);
      return group.clear();
    }
    add(picture);
    for (const std::string_view path : group) {
      if (path == picture) continue;
      out_.picture_fields += formats::has_ending_of(path, endings_) ? 1 : 0;
      add(path);
    }
    out_.first_file.push_back(out_.paths.size());
    group.clear();
  }

  void stray(const Group& group) {
    if (out_.strays == 0) out_.stray = group.front();
    out_.strays += group.size();
  }

  void add(std::string_view path) {
    out_.paths.bytes.append(path);
    out_.paths.begins.push_back(out_.paths.bytes.size());
  }

  const std::string& root_;
  const formats::Endings& endings_;
  ClassFiles& out_;
};

/// "mask.png" of "cat/001.mask.png", in lower case.
std::string companion_field(std::string_view path) {
  std::string field;
  formats::split_member_name(path, field);
  return field;
}

class FolderSource : public PackSource {
 public:
  FolderSource(std::unique_ptr<formats::Dataset> dataset, std::string root,
               std::vector<ClassFiles> classes, std::size_t thread_count, const Looked& looked)
      : dataset_(std::move(dataset)),
        root_(std::move(root)),
        classes_(std::move(classes)),
        warnings_(dataset_->warnings()) {
    for (const ClassFiles& files : classes_) {
      first_sample_.push_back(first_sample_.back() + files.first_file.size() - 1);
      first_file_.push_back(first_file_.back() + files.paths.size());
    }
    files_.emplace(
        static_cast<std::size_t>(first_file_.back()), thread_count,
        [&](std::size_t file) { return full_path(path_of_file(file)); }, looked);
    gather_warnings();
  }

  std::uint64_t size() const noexcept override { return first_sample_.back(); }
  std::string key(std::uint64_t sample) const override {
    return std::string(formats::canonical_key(picture(sample)));
  }
  std::string listed_key(std::uint64_t sample) const override {
    return std::string(picture(sample));
  }
  std::string where(std::uint64_t sample) const override {
    return printable(full_path(picture(sample)));
  }

  Result<void> members(std::uint64_t sample, std::vector<SourceMember>& members) const override {
    const std::size_t number = class_of(sample);
    const ClassFiles& files = classes_[number];
    const std::uint64_t inner = sample - first_sample_[number];
    members.clear();
    for (std::uint64_t i = files.first_file[inner]; i < files.first_file[inner + 1]; ++i) {
      const std::string_view path = files.paths[i];
      const bool is_picture = i == files.first_file[inner];
      SourceMember& member = members.emplace_back();
      member.field = is_picture ? picture_field(path) : companion_field(path);
      Result<void> filled = files_->fill(first_file_[number] + i, full_path(path), member);
      if (!filled) return filled;
      if (is_picture) add_label(number, members);
    }
    return {};
  }

  const formats::Dataset& dataset() const noexcept override { return *dataset_; }
  std::vector<SourceDamage> damage() const override {
    std::vector<SourceDamage> all;
    for (const ClassFiles& files : classes_) {
      all.insert(all.end(), files.damage.begin(), files.damage.end());
    }
    return all;
  }
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }
  std::vector<std::string> some_files() const override {
    std::vector<std::string> files;
    const std::uint64_t step = std::max<std::uint64_t>(1, size() / 256);
    for (std::uint64_t i = 0; i < size(); i += step) files.push_back(full_path(picture(i)));
    return files;
  }
  std::uint64_t memory_bytes() const noexcept override {
    std::uint64_t bytes = files_->memory_bytes();
    for (const ClassFiles& files : classes_) {
      bytes += files.paths.bytes.size() +
               sizeof(std::uint64_t) * (files.paths.begins.size() + files.first_file.size());
    }
    return bytes;
  }

  /// Throws Error kInvalidArgument: a sample has a field twice, or a name gives no key.
  void check_names() const {
    std::string field;
    for (std::uint64_t i = 0; i < size(); ++i) {
      if (!formats::split_member_name(picture(i), field)) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: readers of shards pass over names that begin with __NAME__/; "
                                "rename the folder",
                                where(i)));
      }
      check_fields(i);
    }
  }

 private:
  static void add_label(std::size_t number, std::vector<SourceMember>& members) {
    SourceMember& label = members.emplace_back();
    label.field = "cls";
    label.text = fmt::format("{}", number);
    label.size_bytes = label.text.size();
  }

  void check_fields(std::uint64_t sample) const {
    const std::size_t number = class_of(sample);
    const ClassFiles& files = classes_[number];
    const std::uint64_t begin = files.first_file[sample - first_sample_[number]];
    const std::uint64_t end = files.first_file[sample - first_sample_[number] + 1];
    if (end - begin == 1) return;
    std::vector<std::pair<std::string, std::string>> seen = {
        {"cls", "its class folder"},
        {picture_field(files.paths[begin]), fmt::format("{}", base_of(files.paths[begin]))}};
    for (std::uint64_t i = begin + 1; i < end; ++i) {
      std::string field = companion_field(files.paths[i]);
      const auto other = std::find_if(seen.begin(), seen.end(),
                                      [&](const auto& one) { return one.first == field; });
      if (other != seen.end()) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: field {} of the sample would come from it and from {}; rename "
                                "one of them",
                                printable(full_path(files.paths[i])), printable(field),
                                printable(other->second)));
      }
      seen.emplace_back(std::move(field), fmt::format("{}", base_of(files.paths[i])));
    }
  }

  void gather_warnings() {
    std::uint64_t picture_fields = 0;
    std::uint64_t strays = 0;
    std::string stray;
    for (const ClassFiles& files : classes_) {
      picture_fields += files.picture_fields;
      if (strays == 0) stray = files.stray;
      strays += files.strays;
    }
    if (picture_fields > 0) {
      warnings_.push_back(fmt::format(
          "{}: {} of a name such as NAME.mask.png become fields of NAME's sample; read as a folder "
          "they are samples of their own",
          printable(root_), formats::counted(picture_fields, "picture")));
    }
    if (strays > 0) {
      warnings_.push_back(fmt::format("{}: {} left out, as no picture has their name: {}{}",
                                      printable(root_), formats::counted(strays, "file"),
                                      printable(stray), strays > 1 ? ", ..." : ""));
    }
  }

  std::size_t class_of(std::uint64_t sample) const noexcept {
    const auto after = std::upper_bound(first_sample_.begin(), first_sample_.end(), sample);
    return static_cast<std::size_t>(after - first_sample_.begin()) - 1;
  }
  std::string_view picture(std::uint64_t sample) const noexcept {
    const std::size_t number = class_of(sample);
    const ClassFiles& files = classes_[number];
    return files.paths[files.first_file[sample - first_sample_[number]]];
  }
  std::string_view path_of_file(std::uint64_t file) const noexcept {
    const auto after = std::upper_bound(first_file_.begin(), first_file_.end(), file);
    const auto number = static_cast<std::size_t>(after - first_file_.begin()) - 1;
    return classes_[number].paths[file - first_file_[number]];
  }
  std::string full_path(std::string_view path) const {
    return fmt::format("{}{}{}", root_, root_.ends_with('/') ? "" : "/", path);
  }

  const std::unique_ptr<formats::Dataset> dataset_;
  const std::string root_;
  const std::vector<ClassFiles> classes_;
  std::vector<std::uint64_t> first_sample_{0};  // Of each class, and the number of all.
  std::vector<std::uint64_t> first_file_{0};
  std::optional<SourceFiles> files_;
  std::vector<std::string> warnings_;
};

}  // namespace

std::unique_ptr<PackSource> open_folder_source(std::unique_ptr<formats::Dataset> dataset,
                                               const std::string& root,
                                               const formats::OpenOptions& options,
                                               const Looked& looked) {
  const std::size_t threads = options.thread_count != 0 ? options.thread_count : 2 * usable_cores();
  const std::vector<std::string>& names = dataset->classes();
  std::vector<ClassFiles> classes(names.size());
  const formats::Endings all = {""};
  formats::parallel_for(names.size(), threads, [&](std::size_t i) {
    Grouping grouping(root, options.file_endings, classes[i]);
    const formats::ClassListing listing = formats::list_class(root, names[i], all);
    classes[i].damage = unreadable_folders(listing.findings);
    grouping.run(listing.paths);
  });
  auto source =
      std::make_unique<FolderSource>(std::move(dataset), root, std::move(classes), threads, looked);
  source->check_names();
  return source;
}

}  // namespace feedrace::pack
