// SPDX-License-Identifier: Apache-2.0
// Any bytes as the index of another loader. The first byte chooses: d DALI, w wids, j and y
// Energon's .info.json and .info.yaml, s its database.

#include <stdlib.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "feedrace/exchange/foreign_index.h"
#include "feedrace/exchange/foreign_scan.h"
#include "feedrace/exchange/test_indexes.h"

namespace {

using namespace feedrace::exchange;

void check(bool holds) {
  if (!holds) std::abort();
}

void write(const std::string& path, std::string_view text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
}

/// A folder with the shard and good indexes of it, gone with the process.
class Folder {
 public:
  Folder() {
    std::string name = (std::filesystem::temp_directory_path() / "feedrace-fuzz-XXXXXX").string();
    check(mkdtemp(name.data()) != nullptr);
    path_ = name;
    std::filesystem::create_directories(path_ + "/json");
    std::filesystem::create_directories(path_ + "/yaml");
    write(shard(), testing::shard_text());
    testing::write_energon_database(path_ + "/json/index.sqlite");
    std::filesystem::copy_file(path_ + "/json/index.sqlite", path_ + "/yaml/index.sqlite");
  }
  ~Folder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string shard() const { return path_ + "/" + testing::kShard; }
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }

 private:
  std::string path_;
};

/// The samples that are there, or an error of one line.
void read_by(const std::string& index_path, const std::string& shard) {
  const auto check_message = [](std::string_view message) {
    check(!message.empty() && message.find('\n') == std::string_view::npos);
  };
  try {
    const auto index = open_foreign_index(index_path);
    const auto foreign = index->shard(shard);
    if (!foreign) return check_message(foreign.error().message);
    const auto scanned = scan_by_index(shard, *foreign, {"auto", "label", nullptr});
    if (!scanned) return check_message(scanned.error().message);
    check(scanned->keys == "a/0a/1b");
    check(scanned->label.size() == testing::kSampleCount);
  } catch (const feedrace::Error& error) {
    check_message(error.what());
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Folder folder;
  if (size == 0) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
  switch (data[0]) {
    case 'd':
      write(folder / "t-0.idx", text);
      read_by(folder / "t-0.idx", folder.shard());
      break;
    case 'w':
      write(folder / "list.json", text);
      read_by(folder / "list.json", folder.shard());
      break;
    case 'j':
      write(folder / "json/.info.json", text);
      read_by(folder / "json", folder.shard());
      break;
    case 'y':
      write(folder / "yaml/.info.yaml", text);
      read_by(folder / "yaml", folder.shard());
      break;
    case 's':
      std::filesystem::create_directories(folder / "database");
      write(folder / "database/.info.json", testing::kEnergonJson);
      write(folder / "database/index.sqlite", text);
      read_by(folder / "database", folder.shard());
      break;
    default:
      break;
  }
  return 0;
}
