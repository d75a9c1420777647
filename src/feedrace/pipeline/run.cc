// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/run.h"

#include <algorithm>
#include <exception>
#include <system_error>
#include <utility>

#include <fmt/format.h>

#include "feedrace/error.h"

namespace feedrace::pipeline {
namespace {

std::vector<std::string> field_names(const formats::SampleSpans* spans) {
  std::vector<std::string> names;
  if (spans == nullptr) return names;
  for (const formats::WantedField& field : spans->wanted()) names.push_back(field.name);
  return names;
}

}  // namespace

Run::Run(const RunParts& parts, std::uint64_t epoch, std::uint64_t position)
    : parts_(parts),
      // Every task holds a read buffer, so the pool bounds the queue; the queue itself only has to
      // be long enough never to be the tighter bound.
      queue_(parts.queue_depth * parts.readers.size() + parts.decode_threads + kDefaultBufferCount),
      assembly_(parts.slots, parts.window, field_names(parts.spans), parts.direct.take_on_device),
      decode_shared_{parts.dataset,       parts.spans,
                     parts.pipeline,      parts.order->options().shuffle.seed,
                     parts.limits,        parts.jpeg_engine,
                     parts.on_error,      assembly_,
                     parts.quarantine,    parts.make_backend,
                     parts.read_counters, parts.max_sample_bytes,
                     parts.decode_clock,  parts.jpeg_counters,
                     parts.direct.memory, parts.fallbacks,
                     parts.crops,         parts.delivery.get()} {
  for (std::size_t i = 0; i < parts.readers.size(); ++i) add_reader(i, epoch, position);
  shutdown_.on_cancel([this] { queue_.cancel(); });
  for (std::size_t i = 0; i < parts.decode_threads; ++i) {
    decoders_.push_back(std::make_unique<DecodeThread>(
        decode_shared_, watch::Tracing(parts.trace, watch::TraceStage::kDecode, i)));
    shutdown_.on_cancel([worker = decoders_.back().get()] { worker->cancel(); });
  }
  if (parts.delivery) {
    device_ = std::make_unique<DeviceStage>(
        assembly_, *parts.delivery, decode_shared_, parts.device_clock,
        watch::Tracing(parts.trace, watch::TraceStage::kDevice, 0));
    shutdown_.on_cancel([stage = device_.get()] { stage->cancel(); });
  }
  // No exception leaves a thread: the first one ends the run and reaches the consumer.
  const auto guarded = [this](auto body) {
    return [this, body] {
      try {
        body();
      } catch (...) {
        shutdown_.fail(std::current_exception());
      }
    };
  };
  assembly_.on_room([this] {
    for (const auto& reader : readers_) reader->interrupt();
  });
  try {
    for (const auto& reader : readers_) {
      threads_.emplace_back(guarded([this, each = reader.get()] { each->run(shutdown_.token()); }));
    }
    for (const auto& decoder : decoders_) {
      threads_.emplace_back(guarded([this, worker = decoder.get()] { worker->run(queue_); }));
    }
    if (device_) threads_.emplace_back(guarded([this] { device_->run(shutdown_.token()); }));
  } catch (const std::system_error& error) {
    shutdown_.cancel();
    join();
    throw Error(
        ErrorCode::kIo,
        fmt::format("thread {} of {} could not be started ({}); use fewer threads or raise "
                    "the limit on processes (ulimit -u)",
                    threads_.size() + 1, parts.decode_threads + readers_.size() + (device_ ? 1 : 0),
                    error.what()));
  }
}

void Run::add_reader(std::size_t number, std::uint64_t epoch, std::uint64_t position) {
  const ReaderParts& own = parts_.readers[number];
  ReadOptions options;
  options.order = {parts_.order, parts_.split, epoch, position, parts_.horizon, {}};
  if (parts_.readers.size() > 1) {
    // Samples of no shard are read by the first.
    options.order.is_mine = [this, number](std::uint64_t sample) {
      const std::uint32_t shard = parts_.dataset.place(sample).shard;
      const bool is_known = shard < parts_.reader_of_shard.size();
      return number == (is_known ? parts_.reader_of_shard[shard] : 0);
    };
  }
  options.queue_depth = parts_.queue_depth;
  options.max_sample_bytes = parts_.max_sample_bytes;
  options.base_buffers = own.base_buffers;
  options.cpus = own.cpus;
  options.cache = parts_.cache;
  options.tracing = watch::Tracing(parts_.trace, watch::TraceStage::kRead, number);
  readers_.push_back(std::make_unique<ReadStage>(
      parts_.dataset, own.make_backend, own.buffers, assembly_, queue_, parts_.read_counters,
      parts_.io_clock, parts_.fallbacks, std::move(options)));
  shutdown_.on_cancel([reader = readers_.back().get()] { reader->interrupt(); });
}

Run::~Run() {
  shutdown_.cancel();
  join();
}

void Run::join() noexcept {
  for (std::thread& thread : threads_) {
    if (thread.joinable()) thread.join();
  }
}

bool Run::is_starved() const {
  return assembly_.pending_count() == 0 && parts_.slots->is_starving();
}

watch::Trace::Levels Run::levels() const {
  std::size_t in_flight = 0;
  for (const auto& reader : readers_) in_flight += reader->in_flight_count();
  std::size_t free_buffers = 0;
  for (const ReaderParts& reader : parts_.readers) free_buffers += reader.buffers->free_count();
  return {{"reads in flight", in_flight},
          {"free read buffers", free_buffers},
          {"samples to decode", queue_.size()},
          {"batches in work", assembly_.pending_count()},
          {"batches ready", assembly_.ready_count()}};
}

std::string Run::describe_waiting() const {
  std::vector<ReadStage::Waiting> reads;
  for (const auto& reader : readers_) {
    const auto own = reader->in_flight();
    reads.insert(reads.end(), own.begin(), own.end());
  }
  std::vector<ReadStage::Waiting> pictures;
  for (const auto& decoder : decoders_) {
    if (const auto waiting = decoder->in_work()) pictures.push_back(*waiting);
  }
  std::vector<ReadStage::Waiting> all = reads;
  all.insert(all.end(), pictures.begin(), pictures.end());
  const std::string on_device = device_ ? device_->describe_work() : "";
  if (all.empty()) return "no read and no picture is in work" + on_device;
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  constexpr std::size_t kNamed = 3;
  std::string text = fmt::format(
      "waits for {} reads and {} pictures in decode; the longest:", reads.size(), pictures.size());
  for (std::size_t i = 0; i < std::min(kNamed, all.size()); ++i) {
    text += fmt::format("{} {} for {:.1f} s", i == 0 ? "" : ",",
                        parts_.dataset.where(all[i].sample), all[i].seconds);
  }
  return text + on_device;
}

}  // namespace feedrace::pipeline
