// SPDX-License-Identifier: Apache-2.0
// feedrace: the command line. Each command stands in a file of its own name.

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <system_error>

#include <CLI/CLI.hpp>

#include "feedrace/core/text.h"
#include "feedrace/error.h"
#include "feedrace/tools/command.h"

namespace {

using namespace feedrace::tools;  // NOLINT(google-build-using-namespace): this is its program.

int complain(const char* message, int code) {
  std::fprintf(stderr, "feedrace: %s\n", message);
  return code;
}

int run(int argc, char** argv) {
  CLI::App app("Feedrace: training data from storage to the accelerator.", "feedrace");
  app.set_version_flag("--version", FEEDRACE_VERSION);
  app.require_subcommand(1);
  app.failure_message([](const CLI::App*, const CLI::Error& error) {
    return "feedrace: " + feedrace::printable(error.what()) + "; see --help of the command\n";
  });
  add_index(app);
  add_ls(app);
  add_cat(app);
  add_decode(app);
  add_plan(app);
  add_batch(app);
  add_digest(app);
  add_rehearse(app);
  add_bench(app);
  add_pack(app);
  add_warm(app);
  add_verify(app);
  add_gpu_info(app);
  add_doctor(app);
  add_estimate(app);
  add_top(app);
  add_report(app);
  add_explain(app);
  if (argc <= 1) {
    std::fprintf(stderr, "%sfeedrace: no command was given; name one of these\n",
                 app.help().c_str());
    return kWrongUse;
  }
  try {
    app.parse(argc, argv);
    return kGood;
  } catch (const CLI::RuntimeError& code) {
    return code.get_exit_code();
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? kGood : kWrongUse;  // --help and --version are 0.
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGXFSZ,
              SIG_IGN);  // A file that grows beyond ulimit -f is a failed write, not death.
  int code = kGood;
  try {
    code = run(argc, argv);
  } catch (const feedrace::Error& error) {
    // The loader's own words are for programs, which may make another one.
    const bool is_signal = std::string_view(error.what()).starts_with("the loader was cancelled");
    code = complain(is_signal ? "interrupted" : error.what(), exit_of(error.code()));
  } catch (const std::system_error& error) {
    const std::string message = std::string("a thread can't be started (") + error.what() +
                                "); use fewer threads, or raise ulimit -u or -v";
    code = complain(message.c_str(), kEnvironment);
  } catch (const std::bad_alloc&) {
    code = complain("out of memory; use a smaller batch, prefetch or fewer threads", kEnvironment);
  } catch (const std::exception& error) {
    code = complain(error.what(), kEnvironment);
  }
  // Output that did not arrive is an error, though the command did its work (full disk).
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    const std::string reason = feedrace::errno_text("standard output: write", errno);
    return complain(reason.c_str(), kEnvironment);
  }
  return code;
}
