// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sqlite3.h>

#include <memory>
#include <stdexcept>
#include <string>

#include "feedrace/formats/test_tar.h"

/// A small shard and what other loaders' indexes say of it, for tests.
namespace feedrace::exchange::testing {

inline constexpr const char* kShard = "t-0.tar";
inline constexpr std::size_t kSampleCount = 3;

/// Of three samples.
inline std::string shard_text() {
  formats::testing::TarText tar;
  for (const char* key : {"a/0", "a/1", "b"}) {
    tar.add(std::string(key) + ".jpg", std::string(600, key[0]))
        .add(std::string(key) + ".cls", "7");
  }
  return tar.end().text();
}

/// As DALI's program writes it.
inline constexpr const char* kDaliText =
    "v1.2 3\n"
    "jpg 512 600 a/0.jpg cls 2048 1 a/0.cls\n"
    "jpg 3072 600 a/1.jpg cls 4608 1 a/1.cls\n"
    "jpg 5632 600 b.jpg cls 7168 1 b.cls\n";
inline constexpr const char* kWidsText =
    R"({"__kind__": "wids-shard-index-v1", "wids_version": 1,)"
    R"( "shardlist": [{"url": "t-0.tar", "nsamples": 3, "filesize": 8704}]})";
inline constexpr const char* kEnergonJson =
    R"({"energon_version": "7", "shard_counts": {"t-0.tar": 3}})";
inline constexpr const char* kEnergonYaml = "energon_version: 3.0.0\nshard_counts:\n  t-0.tar: 3\n";

/// Makes Energon's database at `path`, of pages as small as can be; then runs `more`.
inline void write_energon_database(const std::string& path, const std::string& more = "") {
  sqlite3* opened = nullptr;
  sqlite3_open(path.c_str(), &opened);
  const std::unique_ptr<sqlite3, int (*)(sqlite3*)> database(opened, &sqlite3_close);
  const std::string script =
      "PRAGMA page_size = 512; BEGIN;"
      "CREATE TABLE samples (tar_file_id INTEGER, sample_key TEXT, sample_index INTEGER,"
      " byte_offset INTEGER, byte_size INTEGER);"
      "CREATE TABLE sample_parts (tar_file_id INTEGER, sample_index INTEGER, part_name TEXT,"
      " content_byte_offset INTEGER, content_byte_size INTEGER);"
      "INSERT INTO samples VALUES (0, 'a/0', 0, 0, 2560), (0, 'a/1', 1, 2560, 2560),"
      " (0, 'b', 2, 5120, 2560);"
      "INSERT INTO sample_parts VALUES (0, 0, 'jpg', 512, 600), (0, 0, 'cls', 2048, 1),"
      " (0, 1, 'jpg', 3072, 600), (0, 1, 'cls', 4608, 1), (0, 2, 'jpg', 5632, 600),"
      " (0, 2, 'cls', 7168, 1);"
      "COMMIT;" +
      more;
  if (sqlite3_exec(opened, script.c_str(), nullptr, nullptr, nullptr) != SQLITE_OK) {
    throw std::runtime_error(sqlite3_errmsg(opened));
  }
}

}  // namespace feedrace::exchange::testing
