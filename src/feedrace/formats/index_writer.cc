// SPDX-License-Identifier: Apache-2.0
#include "feedrace/formats/index_writer.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/formats/image_finder.h"
#include "feedrace/formats/parallel.h"
#include "feedrace/formats/shard_crops.h"

namespace feedrace::formats {
Result<std::unique_ptr<IndexWriter>> IndexWriter::create(IndexFiles& files, std::string options,
                                                         std::vector<std::string> image_fields) {
  std::unique_ptr<IndexWriter> writer(
      new IndexWriter(files, std::move(options), std::move(image_fields)));
  if (const Result<void> opened = writer->open_columns(); !opened) return opened.error();
  return writer;
}

IndexWriter::IndexWriter(IndexFiles& files, std::string options,
                         std::vector<std::string> image_fields)
    : files_(files), image_fields_(std::move(image_fields)) {
  meta_.options = std::move(options);
}

Result<void> IndexWriter::open_columns() {
  constexpr std::array<ColumnType, kColumnCount> kColumns = {
      columns::kShard,    columns::kLabel,       columns::kLabelState, columns::kFirstMember,
      columns::kKeyBegin, columns::kKeys,        columns::kField,      columns::kOffset,
      columns::kSize,     columns::kImageSamples};
  for (const ColumnType& column : kColumns) {
    const std::string name = fmt::format("{}.npy", column.name);
    Result<Fd> fd = files_.create(name);
    if (!fd) return fd.error();
    columns_.emplace_back(*std::move(fd), files_.path(name), column.type);
  }
  Result<CropColumnsWriter> crops = CropColumnsWriter::create(files_);
  if (!crops) return crops.error();
  crops_ = *std::move(crops);
  static constexpr std::array<std::uint64_t, 1> kZero = {0};
  constexpr std::span<const std::uint64_t> kFirst(kZero);
  Result<void> written = columns_[kFirstMember].append(kFirst);
  return written ? columns_[kKeyBegin].append(kFirst) : written;
}

Result<std::vector<std::uint16_t>> IndexWriter::number_fields(const ShardScan& scan) {
  std::vector<std::uint16_t> numbers;
  for (const std::string& field : scan.field_names) {
    const std::size_t count = meta_.fields.size();
    const auto [at, is_new] = field_numbers_.try_emplace(field, static_cast<std::uint16_t>(count));
    if (is_new && count > std::numeric_limits<std::uint16_t>::max()) {
      return Failure{
          ErrorCode::kInvalidArgument,
          fmt::format("more than 65,535 different fields in the set, the last '{}': a key "
                      "ends at the first dot of the name; pack with no dots in keys",
                      printable(field))};
    }
    if (is_new) meta_.fields.push_back(field);
    numbers.push_back(at->second);
  }
  return numbers;
}

Result<void> IndexWriter::append(const std::string& name, const ShardScan& scan) {
  const Result<std::vector<std::uint16_t>> numbers = number_fields(scan);
  if (!numbers) return numbers.error();
  IndexMeta::Shard shard{name,
                         scan.identity,
                         scan.sample_count(),
                         scan.member_count(),
                         0,
                         {},
                         scan.findings,
                         std::nullopt,
                         {}};
  if (scan.crops) {
    shard.crop_index_count = scan.crops->count;
    shard.crop_index_gaps = scan.crops->gaps;
  }
  if (Result<void> counted = count_images(scan, shard); !counted) return counted;
  if (Result<void> written = append_columns(scan, *numbers); !written) return written;
  meta_.shards.push_back(std::move(shard));
  meta_.sample_count += scan.sample_count();
  meta_.member_count += scan.member_count();
  key_bytes_ += scan.keys.size();
  return {};
}

/// Finds the image of each sample: statistics, fingerprints, and the list of samples that have one.
Result<void> IndexWriter::count_images(const ShardScan& scan, IndexMeta::Shard& shard) {
  const ImageFinder images(scan, image_fields_);
  Fingerprint digest;
  digest.add_number(scan.identity.size_bytes);
  digest.add_bytes(scan.identity.hash);
  std::vector<std::uint64_t> with_image;
  for (std::size_t i = 0; i < scan.sample_count(); ++i) {
    const std::optional<std::size_t> image = images.member(i);
    if (!image) continue;
    const std::uint64_t bytes = scan.size_bytes[*image];
    with_image.push_back(meta_.sample_count + i);
    meta_.max_image_bytes = std::max(meta_.max_image_bytes, bytes);
    image_bytes_ += static_cast<double>(bytes);
    const auto state = static_cast<LabelState>(scan.label_state[i]);
    if (state == LabelState::kOk) ++meta_.labelled_count;
    if (state == LabelState::kBad) ++meta_.bad_label_count;
    if (state == LabelState::kMissing) ++meta_.unlabelled_count;
    for (Fingerprint* one : {&fingerprint_, &digest}) {
      one->add_bytes(scan.key(i));
      one->add_number(bytes);
      one->add_number(static_cast<std::uint64_t>(scan.label[i]));
      one->add_number(scan.label_state[i]);
    }
    key_digest_.add(scan.key(i), state, scan.label[i]);
  }
  shard.image_count = with_image.size();
  shard.digest = digest.text();
  meta_.image_count += with_image.size();
  return columns_[kImageSamples].append(std::span<const std::uint64_t>(with_image));
}

Result<void> IndexWriter::append_columns(const ShardScan& scan,
                                         const std::vector<std::uint16_t>& numbers) {
  const std::vector<std::uint32_t> shard(scan.sample_count(),
                                         static_cast<std::uint32_t>(meta_.shards.size()));
  std::vector<std::uint16_t> field(scan.field);
  for (std::uint16_t& number : field) number = numbers[number];
  std::vector<std::uint64_t> first_member(scan.first_member.begin() + 1, scan.first_member.end());
  for (std::uint64_t& number : first_member) number += meta_.member_count;
  std::vector<std::uint64_t> key_begin(scan.key_begin.begin() + 1, scan.key_begin.end());
  for (std::uint64_t& begin : key_begin) begin += key_bytes_;
  const std::span keys(reinterpret_cast<const std::uint8_t*>(scan.keys.data()), scan.keys.size());

  Result<void> done;
  const auto write = [&]<typename T>(Column column, std::span<const T> values) {
    if (done) done = columns_[column].append(values);
  };
  write(kShard, std::span<const std::uint32_t>(shard));
  write(kLabel, std::span<const std::int64_t>(scan.label));
  write(kLabelState, std::span<const std::uint8_t>(scan.label_state));
  write(kFirstMember, std::span<const std::uint64_t>(first_member));
  write(kKeyBegin, std::span<const std::uint64_t>(key_begin));
  write(kKeys, keys);
  write(kField, std::span<const std::uint16_t>(field));
  write(kOffset, std::span<const std::uint64_t>(scan.offset_bytes));
  write(kSize, std::span<const std::uint64_t>(scan.size_bytes));
  if (!done) return done;
  return scan.crops ? crops_->append(*scan.crops) : crops_->append_empty(scan.sample_count());
}

/// Columns that say of no picture anything are taken out again.
Result<void> IndexWriter::finish_crops() {
  if (meta_.has_crop_indexes()) return crops_->finish();
  crops_.reset();
  for (const char* name : {CropColumns::kBeginFile, CropColumns::kBytesFile}) {
    if (Result<void> removed = files_.remove(name); !removed) return removed;
  }
  return {};
}

Result<void> IndexWriter::finish() {
  meta_.fingerprint = fingerprint_.text();
  meta_.key_fingerprint = key_digest_.in_order();
  meta_.key_set_fingerprint = key_digest_.as_set();
  if (meta_.image_count > 0) {
    meta_.mean_image_bytes = image_bytes_ / static_cast<double>(meta_.image_count);
  }
  if (meta_.image_count == meta_.sample_count) {  // A list of all numbers would say nothing.
    columns_.pop_back();
    const std::string name = fmt::format("{}.npy", columns::kImageSamples.name);
    if (Result<void> removed = files_.remove(name); !removed) return removed;
  }
  if (Result<void> finished = finish_crops(); !finished) return finished;
  for (NpyWriter& column : columns_) {
    if (Result<void> finished = column.finish(); !finished) return finished;
  }
  Result<Fd> fd = files_.create(kMetaFile);
  if (!fd) return fd.error();
  const int meta_fd = fd->get();
  const std::string text = meta_.to_json();
  if (Result<void> put = write_at(meta_fd, files_.path(kMetaFile), 0, text); !put) return put;
  // Side by side: the file system commits them together, instead of each waiting for the one
  // before.
  std::vector<int> fds = {meta_fd};
  for (const NpyWriter& column : columns_) fds.push_back(column.fd());
  if (crops_) fds.insert(fds.end(), {crops_->fds()[0], crops_->fds()[1]});
  std::atomic<int> error_number = 0;
  parallel_for(fds.size(), fds.size(), [&](std::size_t i) {
    if (fsync(fds[i]) != 0) error_number = errno;
  });
  if (error_number != 0) return system_failure(files_.path(kMetaFile), "fsync", error_number);
  return files_.sync();
}

namespace {

/// Shards as they are scanned on other threads, handed out in order. Threads run ahead of the
/// writer by a bounded number, so that memory does not grow with the set.
class OrderedScans {
 public:
  explicit OrderedScans(const IndexBuild& build) : build_(build), slots_(build.paths.size()) {
    const std::size_t count = std::min(build.thread_count, build.paths.size());
    for (std::size_t i = 0; i < count; ++i) {
      threads_.emplace_back([this](const std::stop_token& stop) { run(stop); });
    }
  }
  ~OrderedScans() {
    for (std::jthread& thread : threads_) thread.request_stop();
  }

  /// The scan of shard `i`; call with 0, 1, 2 and so on. Rethrows what a thread threw.
  Result<ShardScan> take(std::size_t i) {
    std::unique_lock lock(mutex_);
    ready_.wait(lock, [&] { return slots_[i].has_value() || failure_; });
    if (failure_) std::rethrow_exception(failure_);
    Result<ShardScan> scan = *std::move(slots_[i]);
    slots_[i].reset();
    taken_ = i + 1;
    room_.notify_all();
    return scan;
  }

 private:
  void run(const std::stop_token& stop) {
    try {
      while (true) {
        const std::size_t i = next(stop);
        if (i >= slots_.size()) return;
        Result<ShardScan> scan = scan_one(i);
        std::lock_guard lock(mutex_);
        slots_[i] = std::move(scan);
        ready_.notify_all();
      }
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!failure_) failure_ = std::current_exception();
      ready_.notify_all();
    }
  }

  /// The next shard to scan; the number of shards when there is none left.
  std::size_t next(const std::stop_token& stop) {
    constexpr std::size_t kAheadPerThread = 4;
    const std::size_t ahead = kAheadPerThread * build_.thread_count;
    std::unique_lock lock(mutex_);
    room_.wait(lock, stop, [&] { return next_ < taken_ + ahead || next_ >= slots_.size(); });
    return stop.stop_requested() ? slots_.size() : next_++;
  }

  /// A failure belongs to its shard, so that the first shard is named, not the first to be ready.
  Result<ShardScan> scan_one(std::size_t i) const {
    try {
      return known_or_read(i);
    } catch (const Error& error) {
      return Failure{error.code(), error.what()};
    }
  }

  Result<ShardScan> known_or_read(std::size_t i) const {
    std::optional<ShardScan> known = build_.known ? build_.known(i) : std::nullopt;
    Result<ShardScan> scan = known ? Result<ShardScan>(*std::move(known))
                                   : scan_shard_file(build_.paths[i], build_.labels);
    if (!scan || build_.crop_counter == nullptr || scan->crops) return scan;
    // Of a few large shards more than one thread each.
    const std::size_t threads = std::max<std::size_t>(1, build_.thread_count / build_.paths.size());
    const Result<void> added = add_crop_indexes(build_.paths[i], build_.image_fields, threads,
                                                *build_.crop_counter, *scan);
    return added ? std::move(scan) : added.error();
  }

  const IndexBuild& build_;
  std::mutex mutex_;
  std::condition_variable ready_;
  std::condition_variable_any room_;
  std::vector<std::optional<Result<ShardScan>>> slots_;  // Guarded by mutex_.
  std::size_t next_ = 0;                                 // Guarded by mutex_.
  std::size_t taken_ = 0;                                // Guarded by mutex_.
  std::exception_ptr failure_;                           // Guarded by mutex_.
  std::vector<std::jthread> threads_;                    // Last: joined before the rest goes.
};

}  // namespace

Result<void> build_index(const IndexBuild& build, IndexFiles& files, bool& write_failed) {
  write_failed = false;
  auto writer = IndexWriter::create(files, build.options, build.image_fields);
  write_failed = !writer;
  if (!writer) return writer.error();
  OrderedScans scans(build);
  std::vector<Failure> failures;
  for (std::size_t i = 0; i < build.paths.size(); ++i) {
    const Result<ShardScan> scan = scans.take(i);
    if (!scan) failures.push_back(scan.error());
    if (!failures.empty()) continue;  // Read on, so that all damaged shards are told at once.
    const Result<void> added = (*writer)->append(base_name(build.paths[i]), *scan);
    write_failed = !added && added.error().code == ErrorCode::kIo;
    if (!added) return added;
  }
  if (!failures.empty()) {
    if (failures.size() > 1) {
      failures[0].message +=
          fmt::format(" (and {} more of {} shards, the next: {})", failures.size() - 1,
                      build.paths.size(), failures[1].message);
    }
    return failures[0];
  }
  Result<void> finished = (*writer)->finish();
  write_failed = !finished;
  return finished;
}

}  // namespace feedrace::formats
