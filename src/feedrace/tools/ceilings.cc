// SPDX-License-Identifier: Apache-2.0
#include "feedrace/tools/ceilings.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/diagnose/jpeg_steps.h"
#include "feedrace/error.h"
#include "feedrace/jpeg/crop_index.h"
#include "feedrace/tools/picture_files.h"
#include "feedrace/tools/plain_shard.h"
#include "feedrace/tools/progress.h"
#include "feedrace/transform/sample_worker.h"

namespace feedrace::tools {
namespace {

using Clock = std::chrono::steady_clock;

constexpr std::size_t kSlices = 5;
// Pictures kept in memory.
constexpr std::uint64_t kMostPictureBytes = std::uint64_t{256} << 20;
// What `prefetch_factor` may be at most.
constexpr std::size_t kMostAhead = 1024;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Rates of slices of a time; the first slice warms up and does not count.
class Slices {
 public:
  explicit Slices(double seconds) : slice_seconds_(seconds / (kSlices + 1)) {}

  /// False once all are done. `seconds` is what the images took.
  bool add(double images, double seconds) {
    images_ += images;
    seconds_ += seconds;
    if (seconds_ >= slice_seconds_) {
      if (is_warm_) rates_.push_back(images_ / seconds_);
      is_warm_ = true;
      images_ = seconds_ = 0;
    }
    return rates_.size() < kSlices;
  }
  std::vector<double> take() { return std::move(rates_); }

 private:
  const double slice_seconds_;
  bool is_warm_ = false;
  double images_ = 0;
  double seconds_ = 0;
  std::vector<double> rates_;
};

/// What the training loop would get, but that it throws it away.
std::vector<double> measure_loader(Loader& loader, double seconds) {
  Slices slices(seconds);
  Clock::time_point last;
  bool has_first = false;
  while (true) {
    const auto batch = loader.next();
    if (!batch) continue;
    const Clock::time_point now = Clock::now();
    if (!std::exchange(has_first, true)) {
      last = now;
      continue;
    }
    if (!slices.add(static_cast<double>(batch->size()),
                    std::chrono::duration<double>(now - last).count())) {
      return slices.take();
    }
    last = now;
  }
}

/// In the order that the pipeline would have them in, and as many at a time as the queue holds:
/// what the window of the run takes of it is not the storage's limit.
LoaderOptions reads_only(LoaderOptions options) {
  const std::size_t batch = std::max<std::size_t>(1, options.batch_size);
  const std::size_t full = std::min(kMostAhead, (2 * options.queue_depth + batch - 1) / batch);
  options.prefetch_factor = std::max(options.prefetch_factor, full);
  if (!options.shuffle) {
    options.shuffle = options.pipeline.crops_at_random() ? Shuffle::kGlobal : Shuffle::kNone;
  }
  options.pipeline = Pipeline::recipe("read");
  options.device = "cpu";
  return options;
}

/// Encoded pictures in memory, and what one thread makes of them.
class Pictures {
 public:
  Pictures(const CeilingsJob& job, const std::string& path)
      : pipeline_(job.loader.pipeline), engine_(job.loader.jpeg_engine), seconds_(job.seconds) {
    const PictureFiles files(path, job.picture_limit);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < files.size() && bytes < kMostPictureBytes; ++i) {
      encoded_.push_back(files.read(i));
      bytes += encoded_.back().size();
    }
    const auto size = pipeline_.output_size();
    if (size) tensor_.resize(std::size_t{3} * size->width_px * size->height_px * sizeof(float));
    drop_those_that_fail();
  }

  std::size_t size() const noexcept { return encoded_.size(); }
  bool has_indexes() const noexcept { return indexed_count_ > 0; }
  void make_indexes();
  std::vector<double> measure_decode(bool with_indexes);
  std::vector<double> measure_augment();

 private:
  void drop_those_that_fail();
  bool decode(transform::SampleWorker& worker, std::size_t i, std::uint64_t draw, bool with_index);
  std::vector<double> measure(const std::function<void(std::size_t, std::uint64_t)>& work) const;

  const Pipeline pipeline_;
  const decode::JpegEngine engine_;
  const double seconds_;
  std::vector<std::vector<std::byte>> encoded_;
  std::vector<std::vector<std::byte>> indexes_;
  std::size_t indexed_count_ = 0;
  std::vector<std::byte> tensor_;
};

bool Pictures::decode(transform::SampleWorker& worker, std::size_t i, std::uint64_t draw,
                      bool with_index) {
  const auto place = [this](ops::ImageSize size) -> void* {
    const std::size_t bytes = std::size_t{3} * size.width_px * size.height_px * sizeof(float);
    if (tensor_.size() < bytes) tensor_.resize(bytes);
    return tensor_.data();
  };
  const auto index =
      with_index ? std::span<const std::byte>(indexes_[i]) : std::span<const std::byte>();
  return static_cast<bool>(worker.run(encoded_[i], draw, i, place, index));
}

void Pictures::drop_those_that_fail() {
  transform::SampleWorker worker(pipeline_, 0, {}, engine_);
  std::vector<std::vector<std::byte>> good;
  for (std::size_t i = 0; i < encoded_.size(); ++i) {
    if (decode(worker, i, 0, false)) good.push_back(std::move(encoded_[i]));
  }
  encoded_ = std::move(good);
}

/// And compares what is decoded from them.
void Pictures::make_indexes() {
  transform::SampleWorker worker(pipeline_, 0, {}, engine_);
  indexes_.resize(encoded_.size());
  for (std::size_t i = 0; i < encoded_.size(); ++i) {
    auto made = jpeg::make_crop_index(encoded_[i]);
    if (!made) continue;
    indexes_[i] = *std::move(made);
    ++indexed_count_;
    decode(worker, i, 0, false);
    const std::vector<std::byte> plain = tensor_;
    decode(worker, i, 0, true);
    if (std::memcmp(plain.data(), tensor_.data(), plain.size()) == 0) continue;
    throw Error(ErrorCode::kCorruptData,
                fmt::format("picture {}: its crop index changes pixels, which it never may; report "
                            "it with the picture",
                            i));
  }
}

/// By the CPU time of this thread, which others on the machine don't change.
std::vector<double> Pictures::measure(
    const std::function<void(std::size_t, std::uint64_t)>& work) const {
  Slices slices(seconds_);
  for (std::uint64_t draw = 0;; ++draw) {
    for (std::size_t i = 0; i < encoded_.size(); ++i) {
      const std::uint64_t start = diagnose::thread_ns();
      work(i, draw);
      const double ns = static_cast<double>(diagnose::thread_ns() - start);
      if (!slices.add(1, ns * 1e-9)) return slices.take();
    }
  }
}

std::vector<double> Pictures::measure_decode(bool with_indexes) {
  transform::SampleWorker worker(pipeline_, 0, {}, engine_);
  return measure([&](std::size_t i, std::uint64_t draw) { decode(worker, i, draw, with_indexes); });
}

/// The pass behind the decoder, over pixels that are there.
std::vector<double> Pictures::measure_augment() {
  transform::SampleWorker worker(pipeline_, 0, {}, engine_);
  ops::FusedPass pass({pipeline_.dtype, pipeline_.layout, pipeline_.mean, pipeline_.std});
  std::vector<std::uint8_t> band;
  Slices slices(seconds_);
  for (std::uint64_t draw = 0;; ++draw) {
    for (std::size_t i = 0; i < encoded_.size(); ++i) {
      const auto drawn = worker.draw(encoded_[i], draw, i);
      if (!drawn) continue;
      const std::size_t row_bytes = std::size_t{3} * drawn->info.width_px;
      band.resize(std::max(band.size(), row_bytes * ops::FusedPass::kBandRows), 127);
      const std::uint64_t start = diagnose::thread_ns();
      pass.begin({drawn->head.resize(), drawn->head.flip()}, tensor_.data());
      while (const std::uint32_t rows = pass.rows_wanted()) {
        pass.push_rows(band.data(), row_bytes, rows);
      }
      const double ns = static_cast<double>(diagnose::thread_ns() - start);
      if (!slices.add(1, ns * 1e-9)) return slices.take();
    }
  }
}

std::vector<double> measure_copy(Loader& loader, double seconds) {
  std::optional<Batch> batch;
  while (!batch) batch = loader.next();
  const std::size_t bytes = batch->images.size_bytes();
  std::vector<std::byte> target(bytes);
  Slices slices(seconds);
  while (true) {
    const Clock::time_point start = Clock::now();
    std::memcpy(target.data(), batch->images.data, bytes);
    if (!slices.add(static_cast<double>(batch->size()), seconds_since(start))) return slices.take();
  }
}

class Measuring {
 public:
  explicit Measuring(const CeilingsJob& job) : job_(job), loader_(job.loader) {}

  std::vector<MeasuredPart> run() {
    storage();
    packed();
    pictures();
    copy();
    add("loader", "the whole, its batches thrown away",
        [&] { return measure_loader(loader_, job_.seconds); });
    consumer();
    return std::move(parts_);
  }

 private:
  void add(std::string name, std::string of, const std::function<std::vector<double>()>& measure) {
    MeasuredPart part{std::move(name), std::move(of), {}, {}};
    part.rates = measure();
    parts_.push_back(std::move(part));
    progress_.update(parts_.size());
  }
  void leave_out(std::string name, std::string of, std::string reason) {
    parts_.push_back({std::move(name), std::move(of), {}, std::move(reason)});
  }
  bool decodes() const {
    return !job_.loader.pipeline.reads_only && !job_.loader.pipeline.raw.has_value();
  }

  void storage() {
    add("storage", "the samples as they lie, nothing decoded", [&] {
      Loader loader(reads_only(job_.loader));
      return measure_loader(loader, job_.seconds);
    });
  }
  void packed();
  void pictures();
  void copy();
  void consumer();

  const CeilingsJob& job_;
  Loader loader_;
  Progress progress_{"parts measured", 7};
  std::vector<MeasuredPart> parts_;
};

void Measuring::packed() {
  const std::string of = "some of the files in one shard";
  if (!loader_.dataset().shards().empty()) {
    return leave_out("packed", of, "the samples lie in shards");
  }
  if (job_.scratch.empty()) {
    return leave_out("packed", of,
                     "it writes some of the samples once more: give a folder on the same drive "
                     "with --scratch");
  }
  const PlainShard shard(job_.scratch, loader_.dataset(), job_.picture_limit, kMostPictureBytes);
  add("packed", of, [&] {
    LoaderOptions options = reads_only(job_.loader);
    options.sources = {shard.path()};
    options.sets.clear();
    options.subset = {};
    options.batch_size = std::min(options.batch_size, shard.sample_count());
    options.format.store_index = formats::StoreIndex::kNever;
    Loader loader(std::move(options));
    return measure_loader(loader, job_.seconds);
  });
}

void Measuring::pictures() {
  const std::string of_decode = "one thread, from memory: decoding and all steps";
  const std::string of_index = "the same from crop indexes";
  const std::string of_augment = "one thread: resize, flip, normalize, of pixels that are there";
  const auto leave_out_all = [&](const std::string& reason) {
    leave_out("decode", of_decode, reason);
    leave_out("decode_indexed", of_index, reason);
    leave_out("augment", of_augment, reason);
  };
  if (!decodes()) return leave_out_all("nothing is decoded");
  if (job_.loader.sources.size() != 1)
    return leave_out_all("give one path: pictures are taken from it");
  Pictures pictures(job_, job_.loader.sources.front());
  if (pictures.size() == 0) return leave_out_all("no picture of it decodes");
  add("decode", of_decode, [&] { return pictures.measure_decode(false); });
  pictures.make_indexes();
  if (job_.loader.jpeg_engine != decode::JpegEngine::kFeedrace) {
    leave_out("decode_indexed", of_index, "libjpeg-turbo uses none");
  } else if (!pictures.has_indexes()) {
    leave_out("decode_indexed", of_index, "none of these pictures takes one");
  } else {
    add("decode_indexed", of_index, [&] { return pictures.measure_decode(true); });
  }
  const Pipeline& pipeline = job_.loader.pipeline;
  const bool is_fused = pipeline.fused_count() == pipeline.steps.size();
  if (is_fused && pipeline.output_size()) {
    add("augment", of_augment, [&] { return pictures.measure_augment(); });
  } else {
    leave_out("augment", of_augment, "not one pass: see feedrace plan");
  }
}

void Measuring::copy() {
  const std::string of = "one copy of a finished batch, in memory";
  if (loader_.plan().device != "cpu") {
    return leave_out("copy", of, "batches go to a GPU: feedrace bench io measures the way there");
  }
  if (!decodes() || !job_.loader.pipeline.output_size()) {
    return leave_out("copy", of, "batches are not one tensor of pictures");
  }
  add("copy", of, [&] { return measure_copy(loader_, job_.seconds); });
}

void Measuring::consumer() {
  const std::string of = "the training loop by itself, as given";
  if (job_.consumer) return parts_.push_back({"consumer", of, {*job_.consumer}, {}});
  leave_out("consumer", of,
            "only the training loop itself can tell: measure it with loader.cached() in Python, "
            "give it with --consumer");
}

}  // namespace

std::vector<MeasuredPart> measure_ceilings(const CeilingsJob& job) { return Measuring(job).run(); }

}  // namespace feedrace::tools
