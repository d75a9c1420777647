// SPDX-License-Identifier: Apache-2.0
// The samples of a list of files: each file with its label.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/cores.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/pack/pack_source.h"
#include "feedrace/pack/source_files.h"

namespace feedrace::pack {
namespace {

/// Tars are unpacked below a folder: keys neither begin at the root nor lead out of it.
std::string_view inner_path(std::string_view path) {
  while (path.starts_with('/') || path.starts_with("./") || path.starts_with("../")) {
    path.remove_prefix(path.find('/') + 1);
  }
  return path;
}

class ListSource : public PackSource {
 public:
  ListSource(std::unique_ptr<formats::Dataset> dataset, std::size_t thread_count,
             const Looked& looked)
      : dataset_(std::move(dataset)),
        has_labels_(!dataset_->label_source().starts_with("none")),
        files_(
            static_cast<std::size_t>(dataset_->size()), thread_count,
            [&](std::size_t i) { return dataset_->path(i); }, looked),
        warnings_(dataset_->warnings()) {
    std::uint64_t shortened = 0;
    for (std::uint64_t i = 0; i < size(); ++i) shortened += check_name(i) ? 0 : 1;
    if (shortened == 0) return;
    warnings_.push_back(fmt::format("{} {} / or ../ in front: tars are unpacked below a folder",
                                    formats::counted(shortened, "key"),
                                    shortened == 1 ? "loses" : "lose"));
  }

  std::uint64_t size() const noexcept override { return dataset_->size(); }
  std::string key(std::uint64_t sample) const override {
    const std::string path = dataset_->key(sample);
    return std::string(formats::canonical_key(inner_path(path)));
  }
  std::string listed_key(std::uint64_t sample) const override { return dataset_->key(sample); }
  std::string where(std::uint64_t sample) const override { return dataset_->where(sample); }

  Result<void> members(std::uint64_t sample, std::vector<SourceMember>& members) const override {
    members.resize(has_labels_ ? 2 : 1);
    std::string path = dataset_->path(sample);
    members[0] = {};
    members[0].field = picture_field(path);
    if (Result<void> filled = files_.fill(sample, std::move(path), members[0]); !filled) {
      return filled;
    }
    if (has_labels_) {
      const Result<std::int64_t> label = dataset_->label(sample);
      if (!label) return label.error();
      members[1] = {};
      members[1].field = "cls";
      members[1].text = fmt::format("{}", *label);
      members[1].size_bytes = members[1].text.size();
    }
    return {};
  }

  const formats::Dataset& dataset() const noexcept override { return *dataset_; }
  const std::vector<std::string>& warnings() const noexcept override { return warnings_; }
  std::vector<std::string> some_files() const override {
    std::vector<std::string> files;
    const std::uint64_t step = std::max<std::uint64_t>(1, size() / 256);
    for (std::uint64_t i = 0; i < size(); i += step) files.push_back(dataset_->path(i));
    return files;
  }
  std::uint64_t memory_bytes() const noexcept override { return files_.memory_bytes(); }

 private:
  /// True when the key keeps the whole path. Throws Error: a name that gives no field, no key.
  bool check_name(std::uint64_t sample) const {
    const std::string path = dataset_->key(sample);
    const std::string_view inner = inner_path(path);
    const std::string_view base = inner.substr(inner.rfind('/') + 1);
    const std::size_t dot = base.find('.');
    if (dot == std::string_view::npos || dot == 0 || dot + 1 == base.size()) {
      throw Error(ErrorCode::kInvalidArgument,
                  fmt::format("{}: the name has no ending, or begins with a dot, so that a shard "
                              "can't hold it; rename it",
                              where(sample)));
    }
    return inner.size() == path.size() || path.starts_with("./");
  }

  const std::unique_ptr<formats::Dataset> dataset_;
  const bool has_labels_;
  const SourceFiles files_;
  std::vector<std::string> warnings_;
};

}  // namespace

std::unique_ptr<PackSource> open_list_source(std::unique_ptr<formats::Dataset> dataset,
                                             const formats::OpenOptions& options,
                                             const Looked& looked) {
  const std::size_t threads = options.thread_count != 0 ? options.thread_count : 2 * usable_cores();
  return std::make_unique<ListSource>(std::move(dataset), threads, looked);
}

}  // namespace feedrace::pack
