// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "feedrace/loader.h"
#include "feedrace/tools/command.h"

namespace feedrace::tools {

/// --jpeg-engine; `name` is one of `pipeline::kJpegEngineNames`.
void add_jpeg_engine(CLI::App& command, std::string& name);

/// The options with which every command that loads batches says how.
struct LoadOptions {
  DataOptions data;
  LoaderOptions loader;
  std::vector<std::string> sets;  ///< "[WEIGHT:]PATH" each.
  std::string key_file;
  std::string index_file;
  std::string share;  ///< "BEGIN,END".
  std::string recipe = "imagenet-train";
  std::uint32_t size_px = 0;
  std::string dtype = "float16";
  std::string layout = "CHW";
  std::string raw_dtype;
  std::vector<std::int64_t> raw_shape;
  std::string shuffle = "auto";
  std::string last_batch = "auto";
  std::string rank_check;
  std::string on_error = "raise";
  std::string fallback = "warn";
  std::string page_cache = "auto";
  std::string crop_index = "auto";
  std::string sqpoll = "auto";
  std::string jpeg_engine = "feedrace";
  SharedCache shared_cache;
  bool no_shuffle = false;
  bool upright = false;
  std::string trace_file;  ///< Empty: none.

  void add_to(CLI::App& command);
  /// Where batches go, for commands that do not themselves look at all of them.
  void add_device_to(CLI::App& command);
  /// How the loader shows what it does, for commands that run one.
  void add_watch_to(CLI::App& command);
  /// The loader's options as given. Throws Error: kInvalidArgument; what reading a list throws.
  LoaderOptions make() const;
  /// Begins what `add_watch_to` asks for. Throws Error.
  void begin_trace(Loader& running) const;

 private:
  void add_pixel_options(CLI::App& command);
  void add_subset_options(CLI::App& command);
  void add_order_options(CLI::App& command);
  void add_rank_options(CLI::App& command);
  void add_machine_options(CLI::App& command);
  void add_error_options(CLI::App& command);
  void fill_sources(LoaderOptions& options) const;
  Subset make_subset() const;
  Pipeline make_pipeline() const;
};

}  // namespace feedrace::tools
