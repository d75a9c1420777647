// SPDX-License-Identifier: Apache-2.0
// Megatron Energon's folder .nv-meta: .info.json (older ones .info.yaml) names the shards and their
// numbers of samples, index.sqlite the members: a shard's number in it is its place in .info.json.

#include <sqlite3.h>
#include <sys/stat.h>

#include <charconv>
#include <filesystem>
#include <system_error>
#include <unordered_map>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/exchange/energon_info.h"
#include "feedrace/exchange/foreign_index.h"
#include "feedrace/formats/posix_file.h"

namespace feedrace::exchange {
namespace {

struct CloseDatabase {
  void operator()(sqlite3* database) const noexcept { sqlite3_close_v2(database); }
};
struct EndStatement {
  void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
};

using Statement = std::unique_ptr<sqlite3_stmt, EndStatement>;

/// Read-only and as it lies there: no journal is looked at, no lock taken, nothing written.
class Database {
 public:
  static Result<Database> open(const std::string& path) {
    sqlite3* opened = nullptr;
    const int code =
        sqlite3_open_v2(uri_of(path).c_str(), &opened,
                        SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
    Database database(opened, path);
    if (code != SQLITE_OK) return database.failure();
    // What is in the file is not ours: its schema may not call functions.
    sqlite3_db_config(opened, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
    sqlite3_db_config(opened, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
    return database;
  }

  /// Views are programs, which may never end; Energon makes tables.
  Result<void> check_tables() const {
    constexpr const char* kQuery =
        "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name IN ('samples', "
        "'sample_parts')";
    Result<Statement> query = prepare(kQuery);
    if (!query) return query.error();
    if (sqlite3_step(query->get()) != SQLITE_ROW) return failure();
    if (sqlite3_column_int64(query->get(), 0) == 2) return {};
    return wrong("has no tables samples and sample_parts");
  }

  /// At most `most` of them fit into the shard.
  Result<std::vector<ForeignMember>> members(std::size_t shard, std::uint64_t most) const {
    constexpr const char* kQuery =
        "SELECT s.sample_key, p.part_name, p.content_byte_offset, p.content_byte_size "
        "FROM sample_parts p JOIN samples s ON s.tar_file_id = p.tar_file_id AND "
        "s.sample_index = p.sample_index WHERE p.tar_file_id = ? "
        "ORDER BY p.content_byte_offset, p.rowid";
    const Result<Statement> query = prepare(kQuery);
    if (!query) return query.error();
    sqlite3_stmt* const raw = query->get();
    sqlite3_bind_int64(raw, 1, static_cast<sqlite3_int64>(shard));
    std::vector<ForeignMember> members;
    while (true) {
      const int code = sqlite3_step(raw);
      if (code == SQLITE_DONE) return members;
      if (code != SQLITE_ROW) return failure();
      const bool are_numbers = sqlite3_column_type(raw, 2) == SQLITE_INTEGER &&
                               sqlite3_column_type(raw, 3) == SQLITE_INTEGER &&
                               sqlite3_column_int64(raw, 2) >= 0 &&
                               sqlite3_column_int64(raw, 3) >= 0;
      if (!are_numbers) {
        return wrong("has a part whose place is no number from 0 up");
      }
      if (members.size() == most) return wrong("has more parts of a shard than fit into it");
      members.push_back({text(raw, 0) + "." + text(raw, 1),
                         static_cast<std::uint64_t>(sqlite3_column_int64(raw, 2)),
                         static_cast<std::uint64_t>(sqlite3_column_int64(raw, 3))});
    }
  }

 private:
  Database(sqlite3* database, std::string path) : database_(database), path_(std::move(path)) {}

  static std::string uri_of(const std::string& path) {
    std::string uri = "file:";
    for (const char c : path) {
      const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                            (c >= '0' && c <= '9') || c == '/' || c == '.' || c == '-' || c == '_';
      if (is_plain) {
        uri += c;
      } else {
        uri += fmt::format("%{:02x}", static_cast<unsigned char>(c));
      }
    }
    return uri + "?mode=ro&immutable=1";
  }

  static std::string text(sqlite3_stmt* row, int column) {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
    const auto size = static_cast<std::size_t>(sqlite3_column_bytes(row, column));
    return bytes == nullptr ? std::string() : std::string(bytes, size);
  }

  Result<Statement> prepare(const char* query) const {
    sqlite3_stmt* raw = nullptr;
    if (sqlite3_prepare_v2(database_.get(), query, -1, &raw, nullptr) != SQLITE_OK) {
      return failure();
    }
    return Statement(raw);
  }

  Failure wrong(const char* what) const {
    return {ErrorCode::kCorruptData,
            fmt::format("{}: {}; make it anew with energon prepare", printable(path_), what)};
  }

  Failure failure() const {
    const char* reason = database_ ? sqlite3_errmsg(database_.get()) : "no memory";
    return {ErrorCode::kCorruptData, fmt::format("{}: SQLite says: {}; make it anew with energon "
                                                 "prepare",
                                                 printable(path_), printable(reason))};
  }

  std::unique_ptr<sqlite3, CloseDatabase> database_;
  std::string path_;
};

class EnergonIndex : public ForeignIndex {
 public:
  explicit EnergonIndex(const std::string& folder)
      : path_(folder + "/index.sqlite"), info_(read_energon_info(folder)) {
    struct stat status{};
    if (stat(path_.c_str(), &status) == 0) mtime_ns_ = formats::mtime_ns(status);
    for (std::size_t i = 0; i < info_.size(); ++i) {
      names_.push_back(formats::base_name(info_[i].name));
      if (!numbers_.emplace(names_.back(), i).second) {
        throw Error(ErrorCode::kInvalidArgument,
                    fmt::format("{}: two shards of the name {}; import sets whose shards have "
                                "different names",
                                printable(folder), printable(names_.back())));
      }
    }
  }

  std::string_view kind() const noexcept override { return "Energon"; }
  const std::vector<std::string>& shard_names() const noexcept override { return names_; }

  Result<ForeignShard> shard(const std::string& path) const override {
    const auto found = numbers_.find(formats::base_name(path));
    if (found == numbers_.end()) {
      return Failure{ErrorCode::kNotFound, fmt::format("{}: knows no shard {}", printable(path_),
                                                       printable(formats::base_name(path)))};
    }
    const Result<Database> database = Database::open(path_);
    if (!database) return database.error();
    if (const Result<void> checked = database->check_tables(); !checked) return checked.error();
    // Each has a header of 512 bytes in front of it.
    constexpr std::uint64_t kHeaderBytes = 512;
    std::error_code error;
    const std::uint64_t size_bytes = std::filesystem::file_size(path, error);
    if (error) return formats::system_failure(path, "stat", error.value());
    Result<std::vector<ForeignMember>> members =
        database->members(found->second, size_bytes / kHeaderBytes);
    if (!members) return members.error();
    return ForeignShard{std::nullopt, info_[found->second].sample_count, *std::move(members),
                        mtime_ns_};
  }

 private:
  const std::string path_;
  const std::vector<EnergonShard> info_;
  std::vector<std::string> names_;
  std::unordered_map<std::string, std::size_t> numbers_;
  std::int64_t mtime_ns_ = 0;
};

/// `  train-000.tar: 123`, of what Energon's YAML writer writes and no other YAML.
std::optional<EnergonShard> shard_of_line(std::string_view line) {
  const std::size_t colon = line.rfind(": ");
  if (!line.starts_with("  ") || colon == std::string_view::npos) return std::nullopt;
  std::string_view name = line.substr(2, colon - 2);
  const bool is_quoted = name.size() >= 2 && name.front() == '\'' && name.back() == '\'';
  if (is_quoted) name = name.substr(1, name.size() - 2);
  EnergonShard shard{std::string(name), 0};
  const char* end = line.data() + line.size();
  const auto [stop, error] = std::from_chars(line.data() + colon + 2, end, shard.sample_count);
  const bool is_plain = name.find_first_of("'\"\\#") == std::string_view::npos && !name.empty();
  if (error != std::errc() || stop != end || !is_plain) return std::nullopt;
  return shard;
}

Failure no_counts(const std::string& path, const std::string& what) {
  return {ErrorCode::kCorruptData,
          fmt::format("{}: no \"shard_counts\" of shard names and numbers: {}; make it anew with "
                      "energon prepare",
                      printable(path), what)};
}

}  // namespace

Result<std::vector<EnergonShard>> parse_energon_yaml(std::string_view text,
                                                     const std::string& path) {
  std::vector<EnergonShard> shards;
  bool is_inside = false;
  for (std::uint64_t number = 1; !text.empty(); ++number) {
    std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(text.size(), line.size() + 1));
    if (line.ends_with('\r')) line.remove_suffix(1);
    if (line.empty()) continue;
    if (line.front() != ' ') {
      is_inside = line == "shard_counts:";
      continue;
    }
    if (!is_inside) continue;
    std::optional<EnergonShard> shard = shard_of_line(line);
    if (!shard) return no_counts(path, fmt::format("line {} is no shard and number", number));
    shards.push_back(*std::move(shard));
  }
  if (shards.empty()) return no_counts(path, "there are none");
  return shards;
}

Result<std::vector<EnergonShard>> parse_energon_json(std::string_view text,
                                                     const std::string& path) {
  // The order of the members counts, which the value that this gives does not keep.
  if (parse_shallow_json(text).is_discarded()) return no_counts(path, "it is no JSON");
  const auto value = nlohmann::ordered_json::parse(text);
  const auto counts = value.is_object() ? value.find("shard_counts") : value.end();
  if (counts == value.end() || !counts->is_object()) return no_counts(path, "there are none");
  std::vector<EnergonShard> shards;
  for (const auto& [name, count] : counts->items()) {
    if (!count.is_number_unsigned()) {
      return no_counts(path, fmt::format("that of {} is no number of samples", printable(name)));
    }
    shards.push_back({name, count.get<std::uint64_t>()});
  }
  if (shards.empty()) return no_counts(path, "there are none");
  return shards;
}

std::vector<EnergonShard> read_energon_info(const std::string& folder) {
  const std::string json_path = folder + "/.info.json";
  const std::string yaml_path = folder + "/.info.yaml";
  Result<std::string> text = read_index_text(json_path);
  const bool is_json = text || text.error().code != ErrorCode::kNotFound;
  if (!is_json) text = read_index_text(yaml_path);
  if (!text) raise(text.error());
  auto shards =
      is_json ? parse_energon_json(*text, json_path) : parse_energon_yaml(*text, yaml_path);
  if (!shards) raise(shards.error());
  return *std::move(shards);
}

std::unique_ptr<ForeignIndex> open_energon_index(const std::string& folder) {
  return std::make_unique<EnergonIndex>(folder);
}

}  // namespace feedrace::exchange
