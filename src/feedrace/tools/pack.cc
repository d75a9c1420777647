// SPDX-License-Identifier: Apache-2.0
// feedrace pack SRC... DIR: packs an image folder, a list or existing shards into shards.

#include "feedrace/pack.h"

#include <algorithm>
#include <charconv>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/tools/command.h"
#include "feedrace/tools/interrupt.h"
#include "feedrace/tools/json_text.h"
#include "feedrace/tools/progress.h"
#include "feedrace/tools/size_text.h"

namespace feedrace::tools {
namespace {

using formats::counted;

struct Options {
  std::vector<std::string> paths;  ///< The sources, then the folder.
  pack::PackOptions pack;
  std::string part;
  std::string on_error = "stop";
  std::optional<std::uint32_t> resize_px;
  std::optional<std::uint32_t> raw_px;  ///< 0: as large as they are.
  std::optional<std::string> side;
  std::optional<std::string> compression;
  bool finishes = false;
  bool is_dry_run = false;
  bool as_json = false;
};

pack::PictureChange picture_change(const Options& options) {
  pack::PictureChange change = options.pack.pictures;
  if (options.side && !options.resize_px && !options.raw_px) {
    throw Error(ErrorCode::kInvalidArgument,
                "--side is given with neither --resize nor --raw; leave it out, or give one");
  }
  const std::uint32_t side_px = options.resize_px.value_or(options.raw_px.value_or(0));
  if (side_px != 0) {
    change.resize = options.side == "longest" ? pack::PictureChange::Resize::kLongest
                                              : pack::PictureChange::Resize::kShortest;
    change.side_px = side_px;
  }
  if (options.raw_px) {
    change.raw = pack::RawOptions{*pack::raw_compression(options.compression.value_or("none"))};
  }
  return change;
}

/// "3/16".
pack::PackPart parse_part(const std::string& text) {
  pack::PackPart part;
  const char* end = text.data() + text.size();
  const auto number = std::from_chars(text.data(), end, part.number);
  const bool has_slash = number.ec == std::errc() && number.ptr != end && *number.ptr == '/';
  if (has_slash) {
    const auto count = std::from_chars(number.ptr + 1, end, part.count);
    const bool is_good =
        count.ec == std::errc() && count.ptr == end && part.number > 0 && part.number <= part.count;
    if (is_good) return part;
  }
  throw Error(ErrorCode::kInvalidArgument,
              fmt::format("--part {}: give part and number of parts, as 3/16", printable(text)));
}

/// Samples that are named one by one; of more a list is better.
constexpr std::size_t kNamedLeftOut = 5;

void print_left_out(const pack::PackReport& report) {
  for (std::size_t i = 0; i < std::min(kNamedLeftOut, report.left_out.size()); ++i) {
    note(fmt::format("left out: {}: {}", printable(report.left_out[i].key),
                     printable(report.left_out[i].reason)));
  }
  if (report.left_out.size() > kNamedLeftOut) {
    note(fmt::format("left out: {} in all; the manifest lists them",
                     counted(report.left_out.size(), "sample")));
  }
}

/// `said`: warnings of the plan, which were printed with it.
void print(const pack::PackReport& report, std::size_t said) {
  warn(std::vector<std::string>(report.warnings.begin() + static_cast<std::ptrdiff_t>(said),
                                report.warnings.end()));
  warn(report.fallbacks);
  print_left_out(report);
  fmt::print("{}", to_text(report));
}

/// Draws progress, and stops the run when the user wants it.
class Watcher {
 public:
  explicit Watcher(InterruptGuard& interrupt) : interrupt_(interrupt) {}

  void operator()(const pack::PackProgress& progress) {
    if (interrupt_.is_interrupted()) {
      throw Error(ErrorCode::kCancelled,
                  "interrupted; finished shards stay, and the same command goes on");
    }
    if (!line_ || phase_ != progress.phase) {
      phase_ = progress.phase;
      line_.emplace(name_of(phase_), 0);
    }
    line_->update(progress.sample_count, progress.share);
  }
  void end() { line_.reset(); }

 private:
  static const char* name_of(pack::PackProgress::Phase phase) noexcept {
    using Phase = pack::PackProgress::Phase;
    if (phase == Phase::kPlan) return "plan, files";
    return phase == Phase::kShards ? "samples" : "crop index";
  }

  InterruptGuard& interrupt_;
  pack::PackProgress::Phase phase_ = pack::PackProgress::Phase::kShards;
  std::optional<Progress> line_;
};

int finish(const Options& options, const pack::PackReport& report, std::size_t said) {
  if (options.as_json) {
    print_json(nlohmann::ordered_json::parse(to_json(report)));
  } else {
    print(report, said);
  }
  return report.failed_count == 0 ? kGood : kBadData;
}

int run(Options options) {
  pack::PackOptions& pack = options.pack;
  pack.folder = options.paths.back();
  options.paths.pop_back();
  pack.sources = options.paths;
  pack.on_error =
      options.on_error == "skip" ? pack::OnSourceError::kSkip : pack::OnSourceError::kStop;
  if (!options.part.empty()) pack.part = parse_part(options.part);
  pack.pictures = picture_change(options);
  if (options.finishes && !pack.sources.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                "--finish takes the folder of the parts alone, and no sources");
  }
  if (!options.finishes && pack.sources.empty()) {
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: one path was given; name the sources, then the folder to pack "
                            "into",
                            printable(pack.folder)));
  }
  InterruptGuard interrupt;
  Watcher watcher(interrupt);
  pack.progress = [&](const pack::PackProgress& progress) { watcher(progress); };
  if (options.finishes) {
    const InterruptGuard::Asking asking(interrupt);
    const pack::PackReport report = pack::finish_parts(pack);
    watcher.end();
    return finish(options, report, 0);
  }
  pack::Packer packer(pack);
  watcher.end();
  if (options.is_dry_run) {
    if (options.as_json) {
      print_json(nlohmann::ordered_json::parse(to_json(packer.plan())));
    } else {
      warn(packer.plan().warnings);
      fmt::print("{}", to_text(packer.plan()));
    }
    if (packer.plan().fits()) return kGood;
    note("it does not fit on the disk");
    return kEnvironment;
  }
  if (!options.as_json) {
    warn(packer.plan().warnings);
    fmt::print("{}", to_text(packer.plan()));
    std::fflush(stdout);
  }
  // Until here nothing is written, and a signal ends the process at once.
  const InterruptGuard::Asking asking(interrupt);
  const pack::PackReport report = packer.run();
  watcher.end();
  return finish(options, report, packer.plan().warnings.size());
}

void add_layout(CLI::App& command, pack::PackOptions& pack) {
  CLI::Option* shards = command.add_option_function<std::uint64_t>(
      "--shards", [&pack](std::uint64_t count) { pack.shard_count = count; },
      "Shards, of as equal sample counts as can be; default: by size");
  shards->check(whole_number(1, 1'000'000));
  command.add_option("--shard-size", pack.shard_size_bytes, "Largest size of a shard")
      ->transform(size_value())
      ->default_str("1GB")
      ->excludes(shards);
  command.add_option("--prefix", pack.prefix, "Shards are named PREFIX-000000.tar and on")
      ->check(not_empty())
      ->capture_default_str();
  CLI::Option* shuffle =
      command.add_flag("--shuffle", pack.shuffle, "In an order that --seed gives, not as stored");
  command.add_option("--seed", pack.seed, "Of --shuffle")
      ->check(whole_number(0))
      ->capture_default_str()
      ->needs(shuffle);
  command.add_flag(
      "--align", pack.align,
      "Payloads of 512 bytes and more begin at multiples of 4,096 bytes, for direct reads");
  command.add_flag("--crop-index", pack.make_crop_index,
                   "Also make the index with which crops are decoded faster");
}

/// Of the sides of a picture; 65,500 is the most that a JPEG encoder takes.
constexpr std::uint64_t kMaxSidePx = 65'500;

void add_pictures(CLI::App& command, Options& options) {
  pack::PictureChange& change = options.pack.pictures;
  CLI::Option* resize =
      command
          .add_option_function<std::uint32_t>(
              "--resize", [&options](std::uint32_t px) { options.resize_px = px; },
              "Make larger pictures smaller: the side that --side names, in pixels")
          ->check(whole_number(1, kMaxSidePx));
  CLI::Option* raw =
      command
          .add_option_function<std::uint32_t>(
              "--raw", [&options](std::uint32_t px) { options.raw_px = px; },
              "Store decoded pictures (.npy), larger ones made so small; 0: as large as they are")
          ->check(whole_number(0, kMaxSidePx))
          ->excludes(resize);
  command
      .add_option("--side", options.side,
                  "Of --resize and --raw: the side that is made so long; default: shortest")
      ->check(CLI::IsMember({"shortest", "longest"}));
  command
      .add_option("--compress", options.compression,
                  "Of --raw, without loss: none, lz4 or zstd; default: none")
      ->check(CLI::IsMember({"none", "lz4", "zstd"}))
      ->needs(raw);
  command
      .add_option_function<int>(
          "--quality", [&change](int quality) { change.jpeg_quality = quality; },
          "Encode every picture as JPEG of this quality, 4:2:0; default: 90 for those resized")
      ->check(whole_number(1, 100))
      ->excludes(raw);
  command
      .add_flag("--baseline", change.baseline,
                "Rewrite JPEG as baseline without loss: what is progressive decodes faster")
      ->excludes(raw);
  command
      .add_option("--restart-rows", change.restart_rows,
                  "Restart markers in JPEG every so many rows of blocks, without loss; 0: as it is")
      ->check(whole_number(0, 65'535))
      ->capture_default_str()
      ->excludes(raw);
}

void add_run(CLI::App& command, Options& options) {
  pack::PackOptions& pack = options.pack;
  command
      .add_option("--on-error", options.on_error,
                  "Of files that vanish, change or can't be read: stop, or skip and list them")
      ->check(CLI::IsMember({"stop", "skip"}))
      ->capture_default_str();
  command
      .add_option("--exclude", pack.exclude_file,
                  "Samples to leave out, as feedrace verify --bad or a quarantine lists them")
      ->check(not_empty());
  command
      .add_option("--threads", pack.thread_count,
                  "Shards written at a time; 0: one for each usable core")
      ->check(whole_number(0, 4096))
      ->capture_default_str();
  command
      .add_option("--backend", pack.backend, "How sources are read: auto, uring, direct, buffered")
      ->capture_default_str();
  command
      .add_option("--part", options.part,
                  "I/N: only every N-th shard, for N machines that pack into one folder")
      ->check(not_empty());
  command.add_flag("--finish", options.finishes,
                   "DIR alone, once all parts are packed into it: make one set of them, with index "
                   "and manifest");
  command.add_flag("--dry-run", options.is_dry_run, "Print the plan and write nothing");
  command.add_flag("--json", options.as_json, "Print JSON");
}

}  // namespace

void add_pack(CLI::App& app) {
  const auto options = std::make_shared<Options>();
  CLI::App* command =
      app.add_subcommand("pack", "Pack an image folder, a list or existing shards into tar shards");
  command
      ->add_option("paths", options->paths,
                   "SRC... DIR: what to pack, as other commands take it, and the folder to pack "
                   "into")
      ->required();
  add_layout(*command, options->pack);
  add_pictures(*command, *options);
  add_run(*command, *options);
  add_command(*command, [options] { return run(*options); });
}

}  // namespace feedrace::tools
