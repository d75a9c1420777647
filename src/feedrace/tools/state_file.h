// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include <CLI/CLI.hpp>

#include "feedrace/loader.h"

namespace feedrace::tools {

/// A file that holds a loader's state, and what the user allows it.
struct StateFile {
  std::string path;  ///< Empty: none.
  bool accept_changed_data = false;

  /// Adds --state with this help text, and --accept-changed-data.
  void add_to(CLI::App& command, const std::string& help);

  /// The file's text; nothing where there is no file. Throws Error kIo.
  std::optional<std::string> read() const;
  /// Loads the state into `loader` and tells the user what differs and is allowed to. False where
  /// there is no file. Throws Error: what `read` and `Loader::load_state` throw, the file in front.
  bool load_into(Loader& loader) const;
  /// Replaces the file: it holds the old text or the new one whole, whenever the process or the
  /// machine stops. Throws Error kIo; then it holds the old one.
  void write(const std::string& text) const;
};

}  // namespace feedrace::tools
