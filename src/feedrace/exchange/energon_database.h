// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/error.h"
#include "feedrace/exchange/foreign_index.h"

namespace feedrace::exchange {

/// Energon's index.sqlite, which may be anybody's: opened read-only and as it lies there (no
/// journal is looked at, no lock taken, nothing written), of plain tables alone, whose rows are
/// taken one by one. The steps that a query may take follow from the size of the file, so that
/// pages that point to each other in a circle come to an end too. Failures of all: kCorruptData,
/// which name the file; kNotFound, kIo.
class EnergonDatabase {
 public:
  static Result<EnergonDatabase> open(const std::string& path);

  /// The rows, by SQLite's numbers, between which all of a shard's lie; `last` < `first`: none.
  struct RowRange {
    std::int64_t first = 0;
    std::int64_t last = -1;
  };
  struct Shard {
    std::size_t number = 0;  ///< In the tables, from 0.
    RowRange samples;
    RowRange parts;
  };

  /// Each row is of one of so many shards. Walks over all rows once, so that the queries of each
  /// shard need not do so again where no index helps them.
  Result<std::vector<Shard>> shards(std::size_t shard_count) const;

  /// Members of a shard, by their places. A shard of `shard_bytes` has room for so many headers and
  /// names; more are a failure, before they take memory.
  Result<std::vector<ForeignMember>> members(const Shard& shard, std::uint64_t shard_bytes) const;

  Result<std::uint64_t> sample_count(const Shard& shard) const;

 private:
  struct Steps {
    std::uint64_t left = 0;
  };
  struct CloseDatabase {
    void operator()(sqlite3* database) const noexcept { sqlite3_close_v2(database); }
  };
  struct EndStatement {
    void operator()(sqlite3_stmt* statement) const noexcept { sqlite3_finalize(statement); }
  };
  using Statement = std::unique_ptr<sqlite3_stmt, EndStatement>;
  struct Room;

  EnergonDatabase(sqlite3* database, std::unique_ptr<Steps> steps, std::string path)
      : steps_(std::move(steps)), database_(database), path_(std::move(path)) {}

  static int count_steps(void* steps) noexcept;
  void limit() const;
  Result<void> check_schema() const;
  Result<void> check_table(const char* table, const std::vector<const char*>& columns) const;
  Result<void> find_rows(const char* table, RowRange Shard::* range,
                         std::vector<Shard>& shards) const;
  Result<std::vector<std::string>> sample_keys(const Shard& shard, Room& room) const;
  Result<Statement> prepare(const std::string& query) const;
  /// Of `columns` of a shard's rows.
  Result<Statement> prepare_rows(const char* columns, const char* table, const Shard& shard,
                                 const RowRange& rows) const;
  /// True with a row, false behind the last one.
  Result<bool> step(sqlite3_stmt* query) const;
  Failure wrong(const std::string& what) const;
  Failure failure(int code) const;

  std::unique_ptr<Steps> steps_;  // Outlives the database, which counts with it.
  std::unique_ptr<sqlite3, CloseDatabase> database_;
  std::string path_;
};

}  // namespace feedrace::exchange
