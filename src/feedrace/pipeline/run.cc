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

/// Pins the read buffers once. What can't be pinned is read into all the same, and said.
std::unique_ptr<storage::Backend> with_memory(std::unique_ptr<storage::Backend> backend,
                                              const BufferPool& buffers, SentenceLog& fallbacks) {
  const auto pinned = backend->register_memory(buffers.memory().bytes());
  if (!pinned) fallbacks.add(pinned.error().message);
  return backend;
}

}  // namespace

Run::Run(const RunParts& parts, std::unique_ptr<storage::Backend> backend, std::uint64_t epoch,
         std::uint64_t position)
    : parts_(parts),
      // Every task holds a read buffer, so the pool bounds the queue; the queue itself only has to
      // be long enough never to be the tighter bound.
      queue_(parts.queue_depth + parts.decode_threads + kDefaultBufferCount),
      assembly_(parts.slots, parts.window),
      decode_shared_{
          parts.dataset,          parts.pipeline,     parts.order->options().shuffle.seed,
          parts.limits,           parts.on_error,     assembly_,
          parts.quarantine,       parts.make_backend, parts.read_counters,
          parts.max_sample_bytes, parts.decode_clock},
      reader_(
          parts.dataset, with_memory(std::move(backend), *parts.buffers, parts.fallbacks),
          parts.buffers, assembly_, queue_, parts.read_counters, parts.io_clock,
          {parts.queue_depth, parts.order, parts.split, epoch, position, parts.max_sample_bytes}) {
  shutdown_.on_cancel([this] { queue_.cancel(); });
  shutdown_.on_cancel([this] { reader_.interrupt(); });
  for (std::size_t i = 0; i < parts.decode_threads; ++i) {
    decoders_.push_back(std::make_unique<DecodeThread>(decode_shared_));
    shutdown_.on_cancel([worker = decoders_.back().get()] { worker->cancel(); });
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
  try {
    threads_.emplace_back(guarded([this] { reader_.run(shutdown_.token()); }));
    for (const auto& decoder : decoders_) {
      threads_.emplace_back(guarded([this, worker = decoder.get()] { worker->run(queue_); }));
    }
  } catch (const std::system_error& error) {
    shutdown_.cancel();
    join();
    throw Error(ErrorCode::kIo,
                fmt::format("thread {} of {} could not be started ({}); use fewer threads or raise "
                            "the limit on processes (ulimit -u)",
                            threads_.size() + 1, parts.decode_threads + 1, error.what()));
  }
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

std::string Run::describe_waiting() const {
  const std::vector<ReadStage::Waiting> reads = reader_.in_flight();
  std::vector<ReadStage::Waiting> pictures;
  for (const auto& decoder : decoders_) {
    if (const auto waiting = decoder->in_work()) pictures.push_back(*waiting);
  }
  std::vector<ReadStage::Waiting> all = reads;
  all.insert(all.end(), pictures.begin(), pictures.end());
  if (all.empty()) return "no read and no picture is in work";
  std::sort(all.begin(), all.end(),
            [](const auto& a, const auto& b) { return a.seconds > b.seconds; });
  constexpr std::size_t kNamed = 3;
  std::string text = fmt::format(
      "waits for {} reads and {} pictures in decode; the longest:", reads.size(), pictures.size());
  for (std::size_t i = 0; i < std::min(kNamed, all.size()); ++i) {
    text += fmt::format("{} {} for {:.1f} s", i == 0 ? "" : ",",
                        parts_.dataset.where(all[i].sample), all[i].seconds);
  }
  return text;
}

}  // namespace feedrace::pipeline
