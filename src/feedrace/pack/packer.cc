// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <filesystem>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/cores.h"
#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/formats/phrases.h"
#include "feedrace/pack.h"
#include "feedrace/pack/exclude_list.h"
#include "feedrace/pack/folder_state.h"
#include "feedrace/pack/journal.h"
#include "feedrace/pack/pack_files.h"
#include "feedrace/pack/pack_finish.h"
#include "feedrace/pack/pack_source.h"
#include "feedrace/pack/picture_plan.h"
#include "feedrace/pack/shard_layout.h"
#include "feedrace/pack/shard_packer.h"
#include "feedrace/storage/fallback_log.h"
#include "feedrace/storage/storage_choice.h"

namespace feedrace::pack {
namespace {

void check(const PackOptions& options) {
  const auto refuse = [](const std::string& what) {
    throw Error(ErrorCode::kInvalidArgument, what);
  };
  if (options.sources.empty()) refuse("nothing to pack; name a folder, shards or a list");
  if (options.folder.empty()) refuse("no folder to pack into; name one");
  const std::string& prefix = options.prefix;
  if (prefix.empty() || prefix.front() == '.' || prefix.find('/') != std::string::npos ||
      prefix.find('\0') != std::string::npos) {
    refuse(fmt::format("prefix {}: is no beginning of a file's name; give one such as train",
                       printable(prefix)));
  }
  constexpr std::string_view kOfPatterns = "*?[]{}";
  const bool has_control = std::ranges::any_of(
      prefix, [](char c) { return static_cast<unsigned char>(c) < 0x20 || c == 0x7f; });
  if (has_control || prefix.find_first_of(kOfPatterns) != std::string::npos) {
    refuse(
        fmt::format("prefix {}: has a character of a pattern ({}) or a control character, so "
                    "that nobody could name its shards; give one such as train",
                    printable(prefix), kOfPatterns));
  }
  if (options.shard_count && *options.shard_count == 0) refuse("0 shards; give at least 1");
  if (options.shard_size_bytes == 0) refuse("shards of 0 bytes; give a size such as 1GB");
  const PackPart& part = options.part;
  if (part.count == 0 || part.number == 0 || part.number > part.count) {
    refuse(fmt::format("part {} of {}; parts are numbered from 1", part.number, part.count));
  }
}

/// A folder below the source would be a class of it at the next look.
void check_apart(const PackOptions& options) {
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::weakly_canonical(options.folder, error);
  for (const std::string& source : options.sources) {
    const std::filesystem::path root = std::filesystem::weakly_canonical(source, error);
    if (!std::filesystem::is_directory(root, error)) continue;
    const auto [end, at] = std::mismatch(root.begin(), root.end(), folder.begin(), folder.end());
    if (end != root.end()) continue;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{}: lies in the source {}; pack into a folder outside of it",
                            printable(options.folder), printable(source)));
  }
}

/// What decides about the bytes, besides the sources.
std::string options_text(const PackOptions& options, const ExcludeList& exclude,
                         const PicturePlan& pictures) {
  nlohmann::json json = {{"align", options.align}, {"prefix", text_to_json(options.prefix)}};
  if (options.shard_count) {
    json["shards"] = *options.shard_count;
  } else {
    json["shard_size"] = options.shard_size_bytes;
  }
  if (options.shuffle) {
    json["shuffle_seed"] = options.seed;
  }
  if (exclude.size() != 0) json["exclude"] = exclude.fingerprint();
  if (pictures.changes()) {
    json["pictures"] = nlohmann::json::parse(pictures.options_text());
    // Where shards end goes by what pictures are thought to become.
    if (!options.shard_count) json["planned_picture_sizes"] = pictures.planned_text();
  }
  return json.dump();
}

/// One class a line, by number; "" where classes have no names.
std::string classes_text(const PackSource& source) {
  std::string text;
  for (const std::string& name : source.dataset().classes()) text += printable(name) + "\n";
  const std::vector<std::string>& shards = source.dataset().shards();
  if (!text.empty() || shards.empty()) return text;
  const std::string folder = formats::folder_of(shards.front());
  const bool is_one_folder = std::all_of(shards.begin(), shards.end(), [&](const auto& shard) {
    return formats::folder_of(shard) == folder;
  });
  if (!is_one_folder) return text;
  const Result<std::string> beside = formats::read_whole_file(folder + "/" + kClassListFile);
  return beside ? *beside : text;
}

/// What would be missing in silence.
std::vector<Manifest::LeftOut> left_out_unlisted(const PackOptions& options,
                                                 const PackSource& source) {
  std::vector<Manifest::LeftOut> left_out;
  for (const SourceDamage& damage : source.damage()) {
    if (options.on_error == OnSourceError::kStop) {
      throw Error(damage.code,
                  fmt::format("{}: samples would be missing: mend it, or leave them out with "
                              "on_error skip",
                              damage.reason));
    }
    left_out.push_back({damage.name, damage.reason});
  }
  return left_out;
}

/// The same list, once it knows the sources' shards.
const ExcludeList& found(ExcludeList& exclude, const PackSource& source) {
  exclude.find_shards(source.dataset().shards());
  return exclude;
}

/// Tells of the plan in the making.
Looked teller(const PackOptions& options) {
  if (!options.progress) return {};
  const auto tell = [&progress = options.progress](std::uint64_t count, double share) {
    progress({PackProgress::Phase::kPlan, count, 0, share});
  };
  tell(0, 0);  // A large folder is listed first.
  return tell;
}

storage::StorageChoice choose(const PackOptions& options, const PackSource& source,
                              const std::shared_ptr<storage::FallbackLog>& log) {
  storage::StorageNeeds needs;
  needs.backend = options.backend;
  needs.queue_depth = options.queue_depth;
  needs.files = source.some_files();
  needs.file_count =
      source.dataset().shards().empty() ? source.size() : source.dataset().shards().size();
  needs.log = log;
  return storage::choose_storage(needs);
}

}  // namespace

class Packer::Work {
 public:
  explicit Work(PackOptions options)
      : options_((check(options), check_apart(options), std::move(options))),
        exclude_(options_.exclude_file.empty() ? ExcludeList()
                                               : ExcludeList(options_.exclude_file)),
        source_(open_pack_source(options_.sources, options_.format, teller(options_))),
        layout_(*source_, options_, found(exclude_, *source_)),
        pictures_(*source_, options_, layout_),
        log_(std::make_shared<storage::FallbackLog>()),
        storage_(choose(options_, *source_, log_)) {
    layout_.cut(*source_, options_, pictures_);
    head_.source = source_->dataset().fingerprint();
    head_.sizes = layout_.sizes();
    head_.times = layout_.times();
    head_.options = options_text(options_, exclude_, pictures_);
    head_.shard_count = layout_.shard_count();
    head_.sample_count = layout_.sample_count();
    // One that packs all may change its mind until the end.
    head_.makes_crop_index = options_.make_crop_index && !options_.part.is_whole();
    head_.left_out = left_out_unlisted(options_, *source_);
    for (const LeftOutSample& one : layout_.left_out()) {
      head_.left_out.push_back({one.key, one.reason});
    }
    describe();
    look_at_folder();
    check_parts();
  }

  const PackPlan& plan() const noexcept { return plan_; }

  PackReport run() {
    Result<PackFolder> opened = PackFolder::open(options_.folder, /*create=*/true);
    if (!opened) raise(opened.error());
    const PackFolder& folder = *opened;
    const Result<PackLock> lock = PackLock::take(folder, options_.part);
    if (!lock) raise(lock.error());
    PackReport report = run_explained(folder);
    report.warnings.insert(report.warnings.begin(), plan_.warnings.begin(), plan_.warnings.end());
    report.fallbacks = log_->counts();
    report.changed_count = counters_.changed_count;
    report.seconds =
        std::chrono::duration<double>(std::chrono::steady_clock::now() - begun_).count();
    return report;
  }

 private:
  bool is_mine(std::uint64_t shard) const noexcept {
    return shard % options_.part.count == options_.part.number - 1;
  }

  /// Machines that have nothing to do were not meant.
  void check_parts() const {
    if (options_.part.count <= layout_.shard_count()) return;
    throw Error(ErrorCode::kInvalidArgument,
                fmt::format("{} for {} parts: give more shards, or fewer parts",
                            formats::counted(layout_.shard_count(), "shard"), options_.part.count));
  }

  void describe() {
    plan_.source_kind = source_->dataset().kind();
    plan_.source_fingerprint = head_.source;
    plan_.warnings = source_->warnings();
    plan_.sample_count = layout_.sample_count();
    plan_.unreadable_count = layout_.unreadable_count();
    plan_.excluded_count = layout_.left_out().size() - layout_.unreadable_count();
    if (layout_.unmatched_excludes() != 0) {
      plan_.warnings.push_back(fmt::format("{}: {} of its samples are not in the sources",
                                           printable(options_.exclude_file),
                                           with_commas(layout_.unmatched_excludes())));
    }
    plan_.warnings.insert(plan_.warnings.end(), pictures_.warnings().begin(),
                          pictures_.warnings().end());
    plan_.change = pictures_.text();
    plan_.change_size_ratio = pictures_.estimate().size_ratio();
    plan_.change_speed_ratio = pictures_.estimate().speed_ratio();
    plan_.shard_count = layout_.shard_count();
    plan_.payload_bytes = layout_.payload_bytes();
    plan_.source_bytes = layout_.source_bytes();
    for (std::uint64_t i = 0; i < plan_.shard_count; ++i) {
      plan_.size_bytes += layout_.shard_bytes(i);
      plan_.largest_shard_bytes = std::max(plan_.largest_shard_bytes, layout_.shard_bytes(i));
      plan_.part_shard_count += is_mine(i) ? 1 : 0;
    }
    const std::size_t wanted = options_.thread_count != 0 ? options_.thread_count : usable_cores();
    plan_.thread_count =
        static_cast<std::size_t>(std::clamp<std::uint64_t>(plan_.part_shard_count, 1, wanted));
    if (pictures_.changes() && plan_.thread_count < wanted) {
      plan_.warnings.push_back(fmt::format(
          "{} for {} threads, each of which packs one at a time: give {} shards or more to use all",
          formats::counted(plan_.part_shard_count, "shard"), wanted, wanted * options_.part.count));
    }
    // Sixteen bytes a sample to find keys that come twice.
    plan_.memory_bytes =
        plan_.thread_count * (ShardPacker::kMemoryBytes + pictures_.memory_bytes()) +
        source_->memory_bytes() + layout_.memory_bytes() + 16 * source_->size();
    plan_.storage = storage_.reason;
  }

  /// What is done already, and what the disk has to have.
  void look_at_folder() {
    const Result<std::uint64_t> free = free_bytes_at(options_.folder);
    if (!free) raise(free.error());
    plan_.free_bytes = *free;
    std::optional<FolderState> state;
    const Result<PackFolder> folder = PackFolder::open(options_.folder, /*create=*/false);
    if (folder) {
      state = read_state(*folder);
    } else if (folder.error().code != ErrorCode::kNotFound) {
      raise(folder.error());
    }
    plan_.finished_count = 0;
    plan_.needed_bytes = kSpareBytes;
    if (state && state->manifest) {
      plan_.finished_count = plan_.part_shard_count;
      plan_.is_packed = true;
      return;
    }
    for (std::uint64_t i = 0; i < layout_.shard_count(); ++i) {
      if (!is_mine(i)) continue;
      if (state && state->finished(*folder, options_.prefix, i) != nullptr) {
        ++plan_.finished_count;
      } else {
        plan_.needed_bytes += layout_.shard_bytes(i);
      }
    }
    if (!options_.part.is_whole()) return;
    plan_.needed_bytes +=
        index_bytes(layout_.sample_count(), layout_.payload_bytes(), options_.make_crop_index);
  }

  FolderState read_state(const PackFolder& folder) const {
    Result<FolderState> state = FolderState::read(folder);
    if (!state) raise(state.error());
    check_fits(folder, *state, head_, options_.part, options_.prefix);
    return *std::move(state);
  }

  /// Says of a full disk how much is missing.
  PackReport run_explained(const PackFolder& folder) {
    try {
      return run_locked(folder);
    } catch (const Error& error) {
      if (error.code() != ErrorCode::kIo || !says_full(error.what())) throw;
      look_at_folder();  // What was not finished is removed by now.
      throw full_disk_error(error, plan_.needed_bytes, plan_.free_bytes);
    }
  }

  PackReport run_locked(const PackFolder& folder) {
    FolderState state = read_state(folder);
    remove_temporaries(folder, options_.part);
    look_at_folder();
    PackReport report;
    if (state.manifest) {
      count(*state.manifest, report);
      report.finished_count = report.shard_count;
      report.was_packed = true;
      finish_set(folder, options_, *state.manifest, report);
      return report;
    }
    check_space();
    const auto own = state.journals.find(journal_name(options_.part));
    auto journal = Journal::open(folder, options_.part, head_,
                                 own == state.journals.end() ? nullptr : &own->second);
    if (!journal) raise(journal.error());
    write_classes(folder);
    std::vector<std::uint64_t> to_do;
    for (std::uint64_t i = 0; i < layout_.shard_count(); ++i) {
      if (!is_mine(i)) continue;
      const JournalShard* done = state.finished(folder, options_.prefix, i);
      if (done != nullptr) {
        done_.push_back(*done);
      } else {
        to_do.push_back(i);
      }
    }
    report.finished_count = done_.size();
    pack_shards(folder, to_do, *journal);
    std::sort(done_.begin(), done_.end(),
              [](const JournalShard& a, const JournalShard& b) { return a.number < b.number; });
    const Manifest manifest = manifest_of(head_, done_);
    count(manifest, report);
    if (options_.part.is_whole()) finish_set(folder, options_, manifest, report);
    return report;
  }

  void check_space() const {
    if (plan_.fits()) return;
    throw Error(ErrorCode::kIo,
                fmt::format("{}: {} needed, {} free; free {} more, or pack elsewhere",
                            printable(options_.folder), human_bytes(plan_.needed_bytes),
                            human_bytes(plan_.free_bytes),
                            human_bytes(plan_.needed_bytes - plan_.free_bytes)));
  }

  void write_classes(const PackFolder& folder) const {
    const std::string text = classes_text(*source_);
    if (text.empty()) return;
    const Result<void> written = folder.write(options_.part, kClassListFile, text);
    if (!written) raise(written.error());
  }

  /// Packs all of `to_do` on threads, and tells of the progress here.
  void pack_shards(const PackFolder& folder, const std::vector<std::uint64_t>& to_do,
                   Journal& journal) {
    std::uint64_t work = 0;
    for (const std::uint64_t shard : to_do) {
      work += pictures_.changes()
                  ? layout_.first_position(shard + 1) - layout_.first_position(shard)
                  : layout_.shard_bytes(shard);
    }
    const auto pack_all = [&] { pack_some(folder, to_do, journal); };
    std::vector<std::jthread> threads;
    const std::size_t wanted = std::min(plan_.thread_count, to_do.size());
    try {
      for (std::size_t i = 0; i < wanted; ++i) {
        std::lock_guard lock(mutex_);
        threads.emplace_back(pack_all);
        ++working_;
      }
    } catch (const std::system_error& error) {
      // Fewer do all of it; none can do nothing.
      if (threads.empty()) throw Error(ErrorCode::kIo, fmt::format("thread: {}", error.what()));
    }
    wait_for_threads(work);
    threads.clear();
    if (failure_) std::rethrow_exception(failure_);
  }

  /// `work`: bytes, or samples where bytes are not known before.
  void wait_for_threads(std::uint64_t work) {
    constexpr std::chrono::milliseconds kTick{100};
    std::unique_lock lock(mutex_);
    while (working_ > 0) {
      ended_.wait_for(lock, kTick);
      if (!options_.progress || counters_.is_stopping) continue;
      lock.unlock();
      try {
        const std::uint64_t samples = counters_.sample_count;
        const std::uint64_t bytes = counters_.size_bytes;
        const std::uint64_t done = pictures_.changes() ? samples : bytes;
        options_.progress(
            {PackProgress::Phase::kShards, samples, bytes,
             std::min(1.0, static_cast<double>(done) /
                               static_cast<double>(std::max<std::uint64_t>(1, work)))});
      } catch (...) {
        fail(std::current_exception());
      }
      lock.lock();
    }
  }

  /// A thread's work. The first failure ends all of them.
  void pack_some(const PackFolder& folder, const std::vector<std::uint64_t>& to_do,
                 Journal& journal) {
    try {
      ShardPacker packer(options_, *source_, layout_, pictures_, folder, counters_,
                         storage_.devices.front().make());
      for (std::size_t i = next_++; i < to_do.size() && !counters_.is_stopping; i = next_++) {
        JournalShard shard = packer.pack(to_do[i]);
        std::lock_guard lock(mutex_);
        if (const Result<void> noted = journal.add(shard); !noted) raise(noted.error());
        done_.push_back(std::move(shard));
      }
    } catch (...) {
      fail(std::current_exception());
    }
    std::lock_guard lock(mutex_);
    --working_;
    ended_.notify_all();
  }

  void fail(std::exception_ptr failure) {
    std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::move(failure);
    counters_.is_stopping = true;
  }

  const std::chrono::steady_clock::time_point begun_ = std::chrono::steady_clock::now();
  const PackOptions options_;
  ExcludeList exclude_;
  const std::unique_ptr<PackSource> source_;
  ShardLayout layout_;
  const PicturePlan pictures_;
  const std::shared_ptr<storage::FallbackLog> log_;
  const storage::StorageChoice storage_;
  JournalHead head_;
  PackPlan plan_;
  PackCounters counters_;
  std::atomic<std::size_t> next_{0};  // Of the shards to do.
  std::mutex mutex_;
  std::condition_variable ended_;
  // Guarded by mutex_ while threads work.
  std::size_t working_ = 0;
  std::exception_ptr failure_;
  std::vector<JournalShard> done_;
};

Packer::Packer(PackOptions options) : work_(std::make_unique<Work>(std::move(options))) {}
Packer::~Packer() = default;
const PackPlan& Packer::plan() const noexcept { return work_->plan(); }
PackReport Packer::run() { return work_->run(); }

}  // namespace feedrace::pack
