// SPDX-License-Identifier: Apache-2.0
#include "feedrace/testing/temp_dir.h"

#include <stdlib.h>

#include <fstream>
#include <iterator>
#include <stdexcept>
#include <system_error>

namespace feedrace::testing {

TempDir::TempDir(const std::filesystem::path& parent) {
  const std::filesystem::path above =
      parent.empty() ? std::filesystem::temp_directory_path() : parent;
  std::string name = (above / "feedrace-test-XXXXXX").string();
  if (mkdtemp(name.data()) == nullptr) throw std::runtime_error("mkdtemp: " + name);
  path_ = name;
}

TempDir::~TempDir() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

std::string TempDir::write(std::string_view name, std::string_view content) const {
  const std::filesystem::path target = path_ / name;
  std::filesystem::create_directories(target.parent_path());
  std::ofstream file(target, std::ios::binary);
  file.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!file.flush()) throw std::runtime_error("write: " + target.string());
  return target.string();
}

std::string read_file(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) throw std::runtime_error("open: " + path.string());
  return {std::istreambuf_iterator<char>(file), {}};
}

}  // namespace feedrace::testing
