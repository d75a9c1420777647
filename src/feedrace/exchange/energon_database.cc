// SPDX-License-Identifier: Apache-2.0
#include "feedrace/exchange/energon_database.h"

#include <algorithm>
#include <cstddef>
#include <optional>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/tar_header.h"
#include "feedrace/formats/tar_reader.h"

namespace feedrace::exchange {
namespace {

/// Between two looks at what is left.
constexpr int kStepsAtATime = 1000;
constexpr std::uint64_t kLeastSteps = 1'000'000;
/// A row of Energon's has 20 bytes and more, and takes some ten steps a query.
constexpr std::uint64_t kStepsPerByte = 4;
/// Of a text or row; names in tars are shorter.
constexpr int kMostTextBytes = 1 << 20;
/// Of a table's definition.
constexpr int kMostSqlBytes = 1 << 16;

/// Holes of a sparse file hold no rows. Some file systems do not say what a file takes, and
/// compressed ones say less than it holds.
std::uint64_t held_bytes(const struct stat& status) noexcept {
  constexpr std::uint64_t kStatBlockBytes = 512;
  constexpr std::uint64_t kMostCompression = 16;
  const auto size = static_cast<std::uint64_t>(status.st_size);
  const auto taken = static_cast<std::uint64_t>(status.st_blocks) * kStatBlockBytes;
  return taken == 0 ? size : std::min(size, kMostCompression * taken);
}

std::string uri_of(const std::string& path) {
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

std::optional<std::string> text_of(sqlite3_stmt* row, int column) {
  if (sqlite3_column_type(row, column) != SQLITE_TEXT) return std::nullopt;
  const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(row, column));
  if (bytes == nullptr) return std::nullopt;
  return std::string(bytes, static_cast<std::size_t>(sqlite3_column_bytes(row, column)));
}

/// From 0 up.
std::optional<std::uint64_t> number_of(sqlite3_stmt* row, int column) {
  if (sqlite3_column_type(row, column) != SQLITE_INTEGER) return std::nullopt;
  const sqlite3_int64 value = sqlite3_column_int64(row, column);
  if (value < 0) return std::nullopt;
  return static_cast<std::uint64_t>(value);
}

}  // namespace

/// What still fits into a shard.
struct EnergonDatabase::Room {
  std::uint64_t headers = 0;
  std::uint64_t name_bytes = 0;

  explicit Room(std::uint64_t shard_bytes)
      : headers(shard_bytes / formats::kTarBlockBytes), name_bytes(shard_bytes) {}

  bool take(std::uint64_t bytes) noexcept {
    if (headers == 0 || bytes > name_bytes) return false;
    --headers;
    name_bytes -= bytes;
    return true;
  }
};

Result<EnergonDatabase> EnergonDatabase::open(const std::string& path) {
  // SQLite would wait for the other end of a pipe.
  const Result<formats::FileSource> file = formats::FileSource::open(path);
  if (!file) {
    Failure failure = file.error();
    const std::string_view of_shards = "; a shard is a tar file";
    if (failure.message.ends_with(of_shards)) {
      failure.message.resize(failure.message.size() - of_shards.size());
      failure.message += ", as Energon's index is";
    }
    return failure;
  }
  auto steps = std::make_unique<Steps>();
  steps->left = kLeastSteps + kStepsPerByte * held_bytes(file->status());
  sqlite3* opened = nullptr;
  const int code =
      sqlite3_open_v2(uri_of(path).c_str(), &opened,
                      SQLITE_OPEN_READONLY | SQLITE_OPEN_URI | SQLITE_OPEN_NOMUTEX, nullptr);
  EnergonDatabase database(opened, std::move(steps), path);
  if (code != SQLITE_OK) return database.failure(code);
  database.limit();
  if (const Result<void> good = database.check_schema(); !good) return good.error();
  return database;
}

int EnergonDatabase::count_steps(void* steps) noexcept {
  std::uint64_t& left = static_cast<Steps*>(steps)->left;
  left -= std::min<std::uint64_t>(left, kStepsAtATime);
  return left == 0 ? 1 : 0;
}

void EnergonDatabase::limit() const {
  sqlite3* const raw = database_.get();
  sqlite3_progress_handler(raw, kStepsAtATime, &count_steps, steps_.get());
  sqlite3_limit(raw, SQLITE_LIMIT_LENGTH, kMostTextBytes);
  sqlite3_limit(raw, SQLITE_LIMIT_SQL_LENGTH, kMostSqlBytes);
  sqlite3_limit(raw, SQLITE_LIMIT_ATTACHED, 0);
  sqlite3_limit(raw, SQLITE_LIMIT_WORKER_THREADS, 0);
  // What is in the file is not ours: its schema may not call functions, and views and triggers are
  // programs, which may never end.
  sqlite3_db_config(raw, SQLITE_DBCONFIG_TRUSTED_SCHEMA, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_DEFENSIVE, 1, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_VIEW, 0, nullptr);
  sqlite3_db_config(raw, SQLITE_DBCONFIG_ENABLE_TRIGGER, 0, nullptr);
  // Neither fails on a database that can't be read; the first query then says so.
  sqlite3_exec(raw, "PRAGMA temp_store = MEMORY; PRAGMA cell_size_check = ON", nullptr, nullptr,
               nullptr);
}

Result<void> EnergonDatabase::check_schema() const {
  // What may call code of a module, however it is spelled and whatever its row says it is.
  Result<Statement> schema = prepare(
      "SELECT count(*) FROM sqlite_master WHERE sql LIKE '%VIRTUAL%' OR sql LIKE '%USING%'");
  if (!schema) return schema.error();
  if (const Result<bool> row = step(schema->get()); !row) return row.error();
  if (sqlite3_column_int64(schema->get(), 0) != 0) {
    return wrong("has a virtual table or column, which Energon has not");
  }
  Result<void> samples = check_table("samples", {"tar_file_id", "sample_key", "sample_index"});
  if (!samples) return samples;
  return check_table("sample_parts", {"tar_file_id", "sample_index", "part_name",
                                      "content_byte_offset", "content_byte_size"});
}

Result<void> EnergonDatabase::check_table(const char* table,
                                          const std::vector<const char*>& columns) const {
  const auto has = [&](const char* column) {
    return sqlite3_table_column_metadata(database_.get(), "main", table, column, nullptr, nullptr,
                                         nullptr, nullptr, nullptr);
  };
  // Views count as none.
  if (has(nullptr) != SQLITE_OK) return wrong("has no tables samples and sample_parts");
  for (const char* column : columns) {
    if (has(column) != SQLITE_OK) {
      return wrong(fmt::format("table {}: no such column: {}", table, column));
    }
  }
  Result<Statement> info = prepare(fmt::format("PRAGMA main.table_xinfo({})", table));
  if (!info) return info.error();
  constexpr int kHidden = 6;
  while (true) {
    const Result<bool> row = step(info->get());
    if (!row) return row.error();
    if (!*row) return {};
    if (sqlite3_column_int64(info->get(), kHidden) == 0) continue;
    return wrong(fmt::format("table {} has a computed column, which Energon has not", table));
  }
}

Result<std::vector<EnergonDatabase::Shard>> EnergonDatabase::shards(std::size_t shard_count) const {
  std::vector<Shard> shards(shard_count);
  for (std::size_t i = 0; i < shard_count; ++i) shards[i].number = i;
  if (const Result<void> found = find_rows("samples", &Shard::samples, shards); !found) {
    return found.error();
  }
  if (const Result<void> found = find_rows("sample_parts", &Shard::parts, shards); !found) {
    return found.error();
  }
  return shards;
}

Result<void> EnergonDatabase::find_rows(const char* table, RowRange Shard::* range,
                                        std::vector<Shard>& shards) const {
  Result<Statement> query = prepare(fmt::format("SELECT rowid, tar_file_id FROM {}", table));
  if (!query) return query.error();
  std::uint64_t strays = 0;
  while (true) {
    const Result<bool> row = step(query->get());
    if (!row) return row.error();
    if (!*row) break;
    const sqlite3_int64 number = sqlite3_column_int64(query->get(), 0);
    const auto shard = number_of(query->get(), 1);
    if (!shard || *shard >= shards.size()) {
      ++strays;
      continue;
    }
    RowRange& rows = shards[*shard].*range;
    const bool is_first = rows.last < rows.first;
    rows.first = is_first ? number : std::min<std::int64_t>(rows.first, number);
    rows.last = is_first ? number : std::max<std::int64_t>(rows.last, number);
  }
  if (strays == 0) return {};
  return wrong(fmt::format("has {} in {} of no shard that the info names",
                           strays == 1 ? "a row" : fmt::format("{} rows", strays), table));
}

Result<std::uint64_t> EnergonDatabase::sample_count(const Shard& shard) const {
  Result<Statement> query = prepare_rows("count(*)", "samples", shard, shard.samples);
  if (!query) return query.error();
  if (const Result<bool> row = step(query->get()); !row) return row.error();
  return static_cast<std::uint64_t>(sqlite3_column_int64(query->get(), 0));
}

Result<std::vector<std::string>> EnergonDatabase::sample_keys(const Shard& shard,
                                                              Room& room) const {
  Result<Statement> query =
      prepare_rows("sample_index, sample_key", "samples", shard, shard.samples);
  if (!query) return query.error();
  std::vector<std::pair<std::uint64_t, std::string>> samples;
  while (true) {
    const Result<bool> row = step(query->get());
    if (!row) return row.error();
    if (!*row) break;
    const auto number = number_of(query->get(), 0);
    auto key = text_of(query->get(), 1);
    if (!number) return wrong("has a sample whose number is none from 0 up");
    if (!key) return wrong("has a sample whose key is no text");
    if (!room.take(key->size())) return wrong("has more samples of a shard than fit into it");
    samples.emplace_back(*number, *std::move(key));
  }
  std::sort(samples.begin(), samples.end());
  std::vector<std::string> keys;
  keys.reserve(samples.size());
  for (auto& [number, key] : samples) {
    if (number != keys.size()) {
      return wrong(
          fmt::format("has no sample {} of shard {}, or has it twice", keys.size(), shard.number));
    }
    keys.push_back(std::move(key));
  }
  return keys;
}

Result<std::vector<ForeignMember>> EnergonDatabase::members(const Shard& shard,
                                                            std::uint64_t shard_bytes) const {
  Room room(shard_bytes);
  const Result<std::vector<std::string>> keys = sample_keys(shard, room);
  if (!keys) return keys.error();
  Result<Statement> query =
      prepare_rows("sample_index, part_name, content_byte_offset, content_byte_size",
                   "sample_parts", shard, shard.parts);
  if (!query) return query.error();
  std::vector<ForeignMember> members;
  room = Room(shard_bytes);
  while (true) {
    const Result<bool> row = step(query->get());
    if (!row) return row.error();
    if (!*row) break;
    const auto sample = number_of(query->get(), 0);
    const auto part = text_of(query->get(), 1);
    const auto offset = number_of(query->get(), 2);
    const auto size = number_of(query->get(), 3);
    if (!sample || *sample >= keys->size())
      return wrong("has a part of a sample that is not in it");
    if (!part) return wrong("has a part whose name is no text");
    if (!offset || !size) return wrong("has a part whose place is no number from 0 up");
    std::string name = (*keys)[*sample] + "." + *part;
    if (!room.take(name.size())) return wrong("has more parts of a shard than fit into it");
    members.push_back({std::move(name), *offset, *size, *sample});
  }
  std::sort(members.begin(), members.end(), [](const auto& a, const auto& b) {
    return std::pair(a.offset_bytes, a.sample) < std::pair(b.offset_bytes, b.sample);
  });
  return members;
}

Result<EnergonDatabase::Statement> EnergonDatabase::prepare(const std::string& query) const {
  sqlite3_stmt* raw = nullptr;
  const int code = sqlite3_prepare_v2(database_.get(), query.c_str(), -1, &raw, nullptr);
  if (code != SQLITE_OK) return failure(code);
  return Statement(raw);
}

Result<EnergonDatabase::Statement> EnergonDatabase::prepare_rows(const char* columns,
                                                                 const char* table,
                                                                 const Shard& shard,
                                                                 const RowRange& rows) const {
  return prepare(fmt::format("SELECT {} FROM {} WHERE tar_file_id = {} AND rowid BETWEEN {} AND {}",
                             columns, table, shard.number, rows.first, rows.last));
}

Result<bool> EnergonDatabase::step(sqlite3_stmt* query) const {
  const int code = sqlite3_step(query);
  if (code == SQLITE_ROW) return true;
  if (code == SQLITE_DONE) return false;
  return failure(code);
}

Failure EnergonDatabase::wrong(const std::string& what) const {
  return {ErrorCode::kCorruptData,
          fmt::format("{}: {}; make it anew with energon prepare", printable(path_), what)};
}

Failure EnergonDatabase::failure(int code) const {
  if (code == SQLITE_INTERRUPT) return wrong("takes longer to read than any file of its size");
  const char* reason = database_ ? sqlite3_errmsg(database_.get()) : "no memory";
  return wrong(fmt::format("SQLite says: {}", printable(reason)));
}

}  // namespace feedrace::exchange
