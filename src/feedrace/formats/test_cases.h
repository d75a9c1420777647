// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "feedrace/testing/temp_dir.h"

namespace feedrace::formats::testing {

/// Where the case set lies: tests/cases, described by its README.md.
inline std::string cases_folder() { return FEEDRACE_TEST_DATA "/cases/"; }

inline const nlohmann::json& all_cases() {
  static const nlohmann::json cases =
      nlohmann::json::parse(feedrace::testing::read_file(cases_folder() + "expectations.json"));
  return cases.at("cases");
}

inline std::vector<nlohmann::json> cases_of(std::string_view kind) {
  std::vector<nlohmann::json> chosen;
  for (const nlohmann::json& one : all_cases()) {
    if (one.at("kind") == kind) chosen.push_back(one);
  }
  return chosen;
}

inline std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < hex.size(); i += 2) {
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  }
  return bytes;
}

/// A name that is either text, or bytes as NAME_hex.
inline std::string name_of(const nlohmann::json& entry, const std::string& name) {
  const auto hex = entry.find(name + "_hex");
  return hex != entry.end() ? from_hex(hex->get<std::string>()) : entry.at(name).get<std::string>();
}

inline void require(bool good, const std::string& what) {
  if (!good) throw std::runtime_error("cannot lay out " + what);
}

/// Lays out one entry of a tree recipe.
inline void lay_out_entry(const nlohmann::json& entry, const std::string& root) {
  namespace fs = std::filesystem;
  const auto type = entry.at("type").get<std::string>();
  const std::string target = root + "/" + name_of(entry, "path");
  if (type == "dir") {
    fs::create_directories(target);
    return;
  }
  fs::create_directories(fs::path(target).parent_path());
  if (type == "file") {
    fs::copy_file(cases_folder() + entry.at("from").get<std::string>(), target,
                  fs::copy_options::overwrite_existing);
    // Copied files take over that the case set may be read-only.
    const auto mode =
        entry.contains("mode") ? std::stoul(entry.at("mode").get<std::string>(), nullptr, 8) : 0644;
    require(chmod(target.c_str(), static_cast<mode_t>(mode)) == 0, target);
  } else if (type == "chmod") {
    const auto mode = std::stoul(entry.at("mode").get<std::string>(), nullptr, 8);
    require(chmod(target.c_str(), static_cast<mode_t>(mode)) == 0, target);
  } else if (type == "symlink") {
    require(symlink(entry.at("to").get<std::string>().c_str(), target.c_str()) == 0, target);
  } else if (type == "hardlink") {
    const std::string source = root + "/" + entry.at("to").get<std::string>();
    require(link(source.c_str(), target.c_str()) == 0, target);
  } else if (type == "fifo") {
    require(mkfifo(target.c_str(), 0644) == 0, target);
  } else if (type == "socket") {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    require(target.size() < sizeof(address.sun_path), target);
    std::copy(target.begin(), target.end(), address.sun_path);
    const int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    const bool bound = bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    require(bound, target);
  } else {
    require(false, type);
  }
}

/// Lays the case's input out under `root`, a folder; returns the path to open. A `file` is copied,
/// so that what the library writes beside it stays out of the case set.
inline std::string lay_out(const nlohmann::json& one, const std::string& root) {
  namespace fs = std::filesystem;
  fs::create_directories(root);
  for (const char* input : {"file", "folder"}) {
    if (!one.contains(input)) continue;
    const fs::path source = cases_folder() + one.at(input).get<std::string>();
    const fs::path target = fs::path(root) / source.filename();
    fs::copy(source, target, fs::copy_options::recursive);
    return target.string();
  }
  const nlohmann::json& recipe = one.at("recipe");
  if (recipe.at("type") == "sparse_file") {
    const std::string target = root + "/" + recipe.at("name").get<std::string>();
    FILE* file = fopen(target.c_str(), "wb");
    require(file != nullptr && ftruncate(fileno(file), recipe.at("size").get<off_t>()) == 0,
            target);
    for (const nlohmann::json& piece : recipe.at("pieces")) {
      const std::string bytes =
          feedrace::testing::read_file(cases_folder() + piece.at("from").get<std::string>());
      fseeko(file, piece.at("offset").get<off_t>(), SEEK_SET);
      require(fwrite(bytes.data(), 1, bytes.size(), file) == bytes.size(), target);
    }
    require(fclose(file) == 0, target);
    return target;
  }
  for (const nlohmann::json& entry : recipe.at("entries")) lay_out_entry(entry, root);
  return root;
}

/// True when `text` holds all that `expect` wants of an error about `file` and sample `key`.
inline bool message_fits(const std::string& text, const nlohmann::json& expect,
                         const std::string& file, const std::string& key = "") {
  for (const nlohmann::json& part : expect.value("error_must_contain", nlohmann::json::array())) {
    std::string needed = part.get<std::string>();
    if (needed == "{file}") needed = file;
    if (needed == "{key}") needed = key;
    if (text.find(needed) == std::string::npos) return false;
  }
  const auto lower = [](std::string value) {
    for (char& c : value) c = static_cast<char>(tolower(static_cast<unsigned char>(c)));
    return value;
  };
  const nlohmann::json one_of =
      expect.value("error_should_contain_one_of", nlohmann::json::array());
  return one_of.empty() ||
         std::any_of(one_of.begin(), one_of.end(), [&](const nlohmann::json& part) {
           return lower(text).find(lower(part.get<std::string>())) != std::string::npos;
         });
}

/// True when a warning holds `text`.
inline bool is_reported(const std::vector<std::string>& warnings, const std::string& text) {
  return std::any_of(warnings.begin(), warnings.end(), [&](const std::string& warning) {
    return warning.find(text) != std::string::npos;
  });
}

/// Runs `check` as an ordinary user, in a child; true when nothing failed there.
template <typename Check>
bool holds_for_ordinary_user(const Check& check) {
  constexpr uid_t kNobody = 65534;
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(2);
    check();
    _exit(::testing::Test::HasFailure() ? 1 : 0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace feedrace::formats::testing
