// SPDX-License-Identifier: Apache-2.0
// feedrace top: what this user's loaders and the machine under them do, live.

#include "feedrace/view/top.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/cuda/plugin_loader.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/device_target.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/view/block_trace.h"
#include "feedrace/watch/listening.h"

namespace feedrace::tools {
namespace {

struct Options {
  view::TopOptions top;
  double seconds = 1;
  cuda::PluginPlaces places;
  bool is_once = false;
  bool as_json = false;
  bool no_block_latency = false;
};

struct Screen {
  std::size_t width = 100;
  std::size_t height = 1000;
};

/// Of the terminal; without one, lines of any number.
Screen screen() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return {};
  // The last line stays free: a line end there would scroll.
  return {size.ws_col, size.ws_row > 1 ? size.ws_row - 1U : 1U};
}

/// Others can't move the cursor, or nobody knows.
bool is_terminal() {
  if (::isatty(STDOUT_FILENO) != 1) return false;
  // NOLINTNEXTLINE(concurrency-mt-unsafe): nobody here sets a variable.
  const char* kind = std::getenv("TERM");
  return kind != nullptr && *kind != '\0' && std::string_view(kind) != "dumb";
}

/// Calls `meanwhile` every 20 ms. False once a signal has come.
bool sleep_for(double seconds, const InterruptGuard& guard,
               const std::function<void()>& meanwhile) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (guard.is_interrupted()) return false;
    ::usleep(20'000);
    meanwhile();
  }
  return !guard.is_interrupted();
}

void show(const nlohmann::ordered_json& top, const Options& options, bool is_live) {
  if (options.as_json) {
    fmt::print("{}\n", top.dump(options.is_once ? 2 : -1));
  } else {
    const Screen size = screen();
    // Drawn over what was there: home, the lines, and nothing below them.
    std::string text = view::draw_top(top, size.width, size.height);
    if (is_live) {
      std::size_t at = 0;
      while ((at = text.find('\n', at)) != std::string::npos) {
        text.insert(at, "\033[K");
        at += 4;
      }
      text = "\033[H" + text + "\033[J";
    }
    std::fwrite(text.data(), 1, text.size(), stdout);
  }
  std::fflush(stdout);
}

/// A question to the GPUs; without a plug-in it is answered by why there is none.
std::function<std::string()> gpu_question(const cuda::PluginPlaces& places) {
  const auto plugin = cuda::Plugin::load(places);
  if (!plugin) {
    return [why = plugin.error().message] {
      return nlohmann::json{{"missing", printable(why)}}.dump();
    };
  }
  return [plugin = *plugin] {
    const auto use = plugin->use();
    return use ? *use : nlohmann::json{{"missing", printable(use.error().message)}}.dump();
  };
}

/// Begins to look at the block layer; null where that is not wanted, or why it can't be.
std::unique_ptr<view::BlockTrace> trace_blocks(Options& options) {
  if (options.no_block_latency) return nullptr;
  auto begun = view::BlockTrace::begin(options.top.root);
  if (!begun) {
    options.top.take_block_latency = [why = begun.error().message] {
      return nlohmann::ordered_json{{"missing", why}};
    };
    return nullptr;
  }
  options.top.take_block_latency = [blocks = begun->get()] { return blocks->take(); };
  return std::move(*begun);
}

int run(Options options) {
  options.top.ask_gpus = gpu_question(options.places);
  const std::unique_ptr<view::BlockTrace> blocks = trace_blocks(options);
  const auto meanwhile = [&] {
    if (blocks) blocks->collect();
  };
  InterruptGuard interrupt;
  const InterruptGuard::Asking asking(interrupt);
  const bool is_live = !options.is_once && !options.as_json && is_terminal();
  if (is_live) fmt::print("\033[?25l\033[2J");
  view::TopLook before = view::take_look(options.top);
  while (sleep_for(options.seconds, interrupt, meanwhile)) {
    view::TopLook after = view::take_look(options.top);
    show(view::top_between(before, after), options, is_live);
    if (options.is_once || std::ferror(stdout) != 0) break;
    before = std::move(after);
  }
  if (is_live) fmt::print("\033[?25h");
  return kGood;
}

}  // namespace

void add_top(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  // NOLINTNEXTLINE(concurrency-mt-unsafe): no other thread yet.
  options->top.folders = watch::socket_folders(std::getenv("XDG_RUNTIME_DIR"));
  CLI::App* command = app.add_subcommand(
      "top", "Show what this user's running loaders and the machine under them do");
  command->add_option("--seconds", options->seconds, "Between two looks")
      ->check(finite_number(0.1, 3600))
      ->capture_default_str();
  command->add_flag("--once", options->is_once, "Look once, over that time, and end");
  command->add_flag("--json", options->as_json, "Print JSON, an object a line without --once");
  add_plugin_places(*command, options->places.plugin, options->places.libraries);
  command->add_option("--folder", options->top.folders, "Where the loaders have their sockets")
      ->check(not_empty())
      ->capture_default_str();
  command->add_flag("--no-block-latency", options->no_block_latency,
                    "Leave the kernel's tracing alone, which is asked for latencies of all reads");
  command->add_option("--root", options->top.root, "Where proc and sys are read")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
