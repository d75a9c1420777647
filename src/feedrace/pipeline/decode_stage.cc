// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/decode_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "feedrace/core/text.h"

namespace feedrace::pipeline {
namespace {

// Stand-ins tried before a place stays bad: with half of a set broken, 1 in 65,536 places does.
constexpr std::uint32_t kSubstituteAttempts = 16;

}  // namespace

void DecodeThread::run(BoundedQueue<DecodeTask>& queue) {
  while (true) {
    const auto asked = Clock::now();
    std::optional<DecodeTask> task = queue.pop();
    const auto start = Clock::now();
    shared_.clock.add_wait(
        static_cast<std::uint64_t>((start - asked) / std::chrono::nanoseconds(1)));
    if (!task) return;
    started_ = start.time_since_epoch().count();
    sample_ = task->pick.sample;
    const std::uint64_t cpu_before = thread_cpu_ns();
    process(*task);
    shared_.clock.add_cpu(thread_cpu_ns() - cpu_before);
    sample_ = kIdle;
    shared_.clock.add_busy(nanoseconds_since(start));
    shared_.clock.add_items(1);
    task->memory.reset();  // The read buffer goes back before the consumer is woken.
    shared_.assembly.finish_place(*task->batch);
  }
}

void DecodeThread::process(DecodeTask& task) {
  BatchSlot& slot = *task.batch->slot;
  slot.indices()[task.index] = task.pick.sample;
  slot.flags()[task.index] = task.pick.is_padding ? SampleFlag::kPadded : SampleFlag::kReal;
  auto label = fill(task);
  if (label) {
    slot.labels()[task.index] = *label;
  } else {
    handle_bad(task, label.error());
  }
}

/// Fills the sample's place; its label or why not.
Result<std::int64_t> DecodeThread::fill(const DecodeTask& task) {
  if (task.failure) return *task.failure;
  auto label = shared_.dataset.label(task.pick.sample);
  if (!label) return label;
  auto image = take_fields(task, task.pick.sample, task.encoded);
  if (!image) return image.error();
  if (shared_.pipeline.reads_only) return label;
  const auto is_left = leave_to_device(task, *image);
  if (!is_left) return is_left.error();
  if (*is_left) return label;
  auto complaint = decode(task, task.pick, *image);
  if (!complaint) return complaint.error();
  if (!complaint->empty()) flag(task, *complaint);
  return label;
}

/// True when the device's stage decodes the picture.
Result<bool> DecodeThread::leave_to_device(const DecodeTask& task,
                                           std::span<const std::byte> image) {
  if (shared_.device == nullptr || !shared_.device->decodes()) return false;
  const auto drawn = worker_.draw(image, task.pick.draw, task.pick.sample);
  if (!drawn) return drawn.error();
  const auto picture = device_picture(*drawn, shared_.pipeline);
  if (picture) task.batch->slot->device_input().put(task.index, task.pick, image, *picture);
  return picture.has_value();
}

void DecodeThread::decode_instead(DecodeTask& task) {
  const auto complaint = decode(task, task.pick, task.encoded);
  if (!complaint) {
    handle_bad(task, complaint.error());
  } else if (!complaint->empty()) {
    flag(task, *complaint);
  }
}

Result<std::string> DecodeThread::decode(const DecodeTask& task, const order::Pick& pick,
                                         std::span<const std::byte> image) {
  if (to_device_) {
    const auto put = to_device_->put(image, *task.batch->on_device, task.index);
    return put ? Result<std::string>(std::string()) : put.error();
  }
  return worker_.run(image, pick.draw, pick.sample, [&task](ops::ImageSize size) -> void* {
    return task.batch->slot->make_image(task.index, size);
  });
}

/// Puts the sample's further fields into its place of the batch; gives the bytes of its image.
Result<std::span<const std::byte>> DecodeThread::take_fields(const DecodeTask& task,
                                                             std::uint64_t sample,
                                                             std::span<const std::byte> bytes) {
  if (shared_.spans == nullptr) return bytes;
  const auto pieces = shared_.spans->pieces(sample);
  if (!pieces) return pieces.error();
  const auto view = [&](const formats::SampleSpans::Piece& piece) {
    return bytes.subspan(static_cast<std::size_t>(piece.offset_bytes),
                         static_cast<std::size_t>(piece.size_bytes));
  };
  for (std::size_t i = 0; i < pieces->fields.size(); ++i) {
    std::optional<std::string>& value = task.batch->fields[i].values[task.index];
    value.reset();
    if (!pieces->fields[i]) continue;
    const std::span<const std::byte> field = view(*pieces->fields[i]);
    value.emplace(reinterpret_cast<const char*>(field.data()), field.size());
  }
  return view(pieces->image);
}

/// Delivered, but not in silence: counted, named, and listed with the bad ones.
void DecodeThread::flag(const DecodeTask& task, const std::string& complaint) {
  std::string sentence = shared_.dataset.where(task.pick.sample) + ": " + complaint;
  const auto listed = shared_.quarantine.add(shared_.dataset, task.pick.sample,
                                             task.batch->order->epoch(), "flagged", sentence);
  if (!listed) sentence += "; " + listed.error().message;
  std::lock_guard lock(task.batch->mutex);
  task.batch->complaints.push_back(std::move(sentence));
}

/// Puts the sample's place in front, unless the layer that failed has named it already.
void DecodeThread::name_place(const DecodeTask& task, Failure& failure) const {
  const std::string where = shared_.dataset.where(task.pick.sample);
  const std::string path = printable(shared_.dataset.path(task.pick.sample));
  const bool is_own_file =
      shared_.dataset.place(task.pick.sample).shard == formats::Place::kOwnFile;
  const bool is_named = failure.message.starts_with(where + ":") ||
                        (is_own_file && failure.message.starts_with(path + ":"));
  if (!is_named) failure.message = where + ": " + failure.message;
  // Whatever is wrong with one sample is the data's fault, but for a device that fails, or a path
  // that the user has refused.
  const bool is_given = failure.code == ErrorCode::kIo || is_refused(task);
  if (!is_given) failure.code = ErrorCode::kCorruptData;
}

/// A read that would have taken another path than the user allows: no sample is at fault, so none
/// is replaced.
bool DecodeThread::is_refused(const DecodeTask& task) {
  return task.failure && task.failure->code == ErrorCode::kUnsupported;
}

void DecodeThread::handle_bad(DecodeTask& task, Failure failure) {
  name_place(task, failure);
  const bool is_data = !is_refused(task);
  const auto listed = is_data ? shared_.quarantine.add(shared_.dataset, task.pick.sample,
                                                       task.batch->order->epoch(),
                                                       to_string(failure.code), failure.message)
                              : Result<void>();
  if (!listed) failure = listed.error();
  const bool is_raised = shared_.on_error == OnError::kRaise || !listed || !is_data;
  if (!is_raised) {
    if (shared_.on_error == OnError::kZero) {
      blank(task);
    } else if (!substitute(task)) {
      failure.message += "; no stand-in could be read either";
      std::lock_guard lock(task.batch->mutex);
      task.batch->fatal = true;
    }
  }
  std::lock_guard lock(task.batch->mutex);
  task.batch->bad_samples.push_back({task.index, std::move(failure)});
  if (is_raised) task.batch->fatal = true;
}

/// Puts the first stand-in that can be read into the place.
bool DecodeThread::substitute(DecodeTask& task) {
  const order::SampleOrder& order = task.batch->order->order();
  BatchSlot& slot = *task.batch->slot;
  for (std::uint32_t attempt = 0; attempt < kSubstituteAttempts; ++attempt) {
    const order::Pick pick = order.substitute(task.pick, attempt);
    auto label = shared_.dataset.label(pick.sample);
    if (!label) continue;
    auto bytes = stand_ins_.read(pick.sample);
    if (!bytes) continue;
    const auto image = take_fields(task, pick.sample, bytes->view());
    if (!image) continue;
    if (!shared_.pipeline.reads_only && !decode(task, pick, *image)) continue;
    slot.labels()[task.index] = *label;
    slot.indices()[task.index] = pick.sample;
    slot.flags()[task.index] = SampleFlag::kSubstituted;
    return true;
  }
  return false;
}

void DecodeThread::blank(DecodeTask& task) {
  BatchSlot& slot = *task.batch->slot;
  constexpr ops::ImageSize kBlankPixel{1, 1};  // Where pictures have no size in common.
  const std::size_t bytes =
      slot.shape().is_ragged ? 3 * slot.shape().element_bytes : slot.shape().image_bytes;
  if (to_device_) {
    to_device_->blank(*task.batch->on_device, task.index);
  } else {
    std::memset(slot.make_image(task.index, kBlankPixel), 0, bytes);
  }
  for (FieldColumn& field : task.batch->fields) field.values[task.index].reset();
  const auto label = shared_.dataset.label(task.pick.sample);
  slot.labels()[task.index] = label ? *label : -1;
  slot.flags()[task.index] = SampleFlag::kBlank;
}

std::optional<ReadStage::Waiting> DecodeThread::in_work() const {
  const std::uint64_t sample = sample_;
  if (sample == kIdle) return std::nullopt;
  const Clock::time_point start{Clock::duration(started_.load())};
  return ReadStage::Waiting{sample, static_cast<double>(nanoseconds_since(start)) * 1e-9};
}

}  // namespace feedrace::pipeline
