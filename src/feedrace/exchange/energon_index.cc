// SPDX-License-Identifier: Apache-2.0
// Megatron Energon's folder .nv-meta: .info.json (older ones .info.yaml) names the shards and their
// numbers of samples, index.sqlite the members: a shard's number in it is its place in .info.json.

#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/exchange/energon_database.h"
#include "feedrace/exchange/energon_info.h"
#include "feedrace/exchange/foreign_index.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::exchange {
namespace {

class EnergonIndex : public ForeignIndex {
 public:
  explicit EnergonIndex(const std::string& folder)
      : path_(folder + "/index.sqlite"), info_(read_energon_info(folder)) {
    for (std::size_t i = 0; i < info_.size(); ++i) {
      names_.push_back(formats::base_name(info_[i].name));
      if (!numbers_.emplace(names_.back(), i).second) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: two shards of the name {}; import sets whose shards have "
                                "different names",
                                printable(folder), printable(names_.back())));
      }
    }
    const Result<EnergonDatabase> database = EnergonDatabase::open(path_);
    if (!database) raise(database.error());
    Result<std::vector<EnergonDatabase::Shard>> shards = database->shards(info_.size());
    if (!shards) raise(shards.error());
    shards_ = *std::move(shards);
  }

  std::string_view kind() const noexcept override { return "Energon"; }
  const std::vector<std::string>& shard_names() const noexcept override { return names_; }

  Result<ForeignShard> shard(const std::string& path) const override {
    const auto found = numbers_.find(formats::base_name(path));
    if (found == numbers_.end()) {
      return Failure{ErrorCode::kNotFound, fmt::format("{}: knows no shard {}", printable(path_),
                                                       printable(formats::base_name(path)))};
    }
    const Result<EnergonDatabase> database = EnergonDatabase::open(path_);
    if (!database) return database.error();
    const Result<std::uint64_t> count = database->sample_count(shards_[found->second]);
    if (!count) return count.error();
    const EnergonShard& info = info_[found->second];
    if (*count != info.sample_count) {
      return Failure{
          ErrorCode::kCorruptData,
          fmt::format("{}: the info says {} samples of {}, and there are {}; make it "
                      "anew with energon prepare",
                      printable(path_), info.sample_count, printable(info.name), *count)};
    }
    std::error_code error;
    const std::uint64_t size_bytes = std::filesystem::file_size(path, error);
    if (error) return formats::system_failure(path, "stat", error.value());
    Result<std::vector<ForeignMember>> members =
        database->members(shards_[found->second], size_bytes);
    if (!members) return members.error();
    ForeignShard shard;
    shard.sample_count = info.sample_count;
    shard.members = *std::move(members);
    shard.folds_field_case = true;  // Versions differ in whether parts keep their case.
    return shard;
  }

 private:
  const std::string path_;
  const std::vector<EnergonShard> info_;
  std::vector<std::string> names_;
  std::vector<EnergonDatabase::Shard> shards_;
  std::unordered_map<std::string, std::size_t> numbers_;
};

}  // namespace

std::unique_ptr<ForeignIndex> open_energon_index(const std::string& folder) {
  return std::make_unique<EnergonIndex>(folder);
}

}  // namespace feedrace::exchange
