// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pipeline/decode_stage.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/decode/npy_decoder.h"
#include "feedrace/decode/npy_header.h"

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
    shared_.clock.add_wait(nanoseconds_between(asked, start));
    if (!task) return;
    tracing_.span(watch::TraceKind::kAwaitWork, asked, start);
    started_ = start.time_since_epoch().count();
    sample_ = task->pick.sample;
    const std::uint64_t cpu_before = thread_cpu_ns();
    {
      const watch::Range range = tracing_.range(watch::TraceKind::kDecode);
      process(*task);
    }
    shared_.clock.add_cpu(thread_cpu_ns() - cpu_before);
    sample_ = kIdle;
    const auto end = Clock::now();
    shared_.clock.add_busy(nanoseconds_between(start, end));
    shared_.clock.add_items(1);
    task->memory.reset();  // The read buffer goes back before the consumer is woken.
    // Told before the consumer can have the batch, so that a trace which ends then has all of it.
    tracing_.span(watch::TraceKind::kDecode, start, end, task->pick.sample,
                  task->batch->trace_id());
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
  std::span<const std::byte> encoded = *image;
  if (copies_ && copies_->holds(encoded)) {
    const auto is_there = leave_on_device(task, encoded);
    if (!is_there) return is_there.error();
    if (*is_there) return label;
    encoded = copies_->fetch(encoded);
  }
  const auto is_left = leave_to_device(task, encoded);
  if (!is_left) return is_left.error();
  if (*is_left) return label;
  auto complaint = decode(task, task.pick, encoded);
  if (!complaint) return complaint.error();
  if (!complaint->empty()) flag(task, *complaint);
  return label;
}

/// True when the device's stage brings the picture to the device.
Result<bool> DecodeThread::leave_to_device(const DecodeTask& task,
                                           std::span<const std::byte> image) {
  if (shared_.device == nullptr || !shared_.device->decodes()) return false;
  const auto drawn = worker_.draw(image, task.pick.draw, task.pick.sample);
  if (!drawn) return drawn.error();
  const auto picture = shared_.device->picture(*drawn, shared_.pipeline);
  if (!picture) return false;
  if (holds_pixels(drawn->info)) return leave_pixels(task, *picture, drawn->head);
  task.batch->slot->device_input().put(task.index, task.pick, image, *picture);
  return true;
}

/// Of a picture that cuFile has read: true when its rows stay on the device. Whatever is no plain
/// array of RGB pixels, damaged ones too, goes the way of the others, through the host.
Result<bool> DecodeThread::leave_on_device(const DecodeTask& task,
                                           std::span<const std::byte> image) {
  const auto front =
      copies_->fetch(image.first(std::min(image.size(), decode::kMaxNpyHeaderBytes)));
  const auto array = decode::find_npy_picture(front, image.size(), shared_.limits);
  const bool is_rgb = array && array->channel_count == 3;
  if (!is_rgb || shared_.device == nullptr || !shared_.device->decodes()) return come_back();
  const decode::ImageInfo info{array->width_px, array->height_px, 3, 1, "npy"};
  const auto head = worker_.draw(info, task.pick.draw, task.pick.sample);
  if (!head) return head.error();
  const auto picture = shared_.device->picture({info, *head}, shared_.pipeline);
  if (!picture) return come_back();
  DeviceInput& input = task.batch->slot->device_input();
  const ops::CropBox& box = head->crop();
  const std::byte* const first =
      image.data() + array->pixels_at_bytes + box.y_px * array->row_bytes();
  const std::size_t bytes = box.height_px * array->row_bytes();
  feedrace_cuda_picture rows{0, static_cast<std::int64_t>(array->row_bytes()), array->width_px,
                             box.height_px};
  try {
    rows.address = input.take_on_device(copies_->device(), bytes);
  } catch (const cuda::DeviceMemoryError&) {
    return come_back();
  }
  copies_->stream().copy_on_device(rows.address, reinterpret_cast<std::uint64_t>(first), bytes);
  copies_->finish();
  input.put_rows(task.index, task.pick, rows, *picture, *head);
  return true;
}

bool DecodeThread::come_back() {
  shared_.fallbacks.add(
      "pictures that cuFile has read come back to the host, as they are no plain .npy of RGB "
      "pixels or the GPU has no room for them; store them by pack --raw without --compress");
  return false;
}

/// Of the picture that was drawn last, the pixels that the pass reads.
Result<bool> DecodeThread::leave_pixels(const DecodeTask& task, const cuda::Picture& picture,
                                        const transform::FusedHead& head) {
  DeviceInput& input = task.batch->slot->device_input();
  const ops::CropBox& box = head.crop();
  const auto pixels = input.try_take_pixels(std::size_t{3} * box.width_px * box.height_px);
  if (pixels.empty()) {
    shared_.fallbacks.add(
        "decoded pictures are resized on the CPU, as the memory limit has no room for their "
        "pixels; use a smaller batch_size or prefetch_factor, or raise memory_limit");
    return false;
  }
  if (const auto read = worker_.read_box(head, pixels); !read) return read.error();
  input.put_pixels(task.index, task.pick, pixels, picture, head);
  return true;
}

void DecodeThread::make_instead(DecodeTask& task) {
  const DeviceInput::Place& place = task.batch->slot->device_input().places()[task.index];
  if (place.head) {
    run_box(place, task.batch->slot->image(task.index));
    return;
  }
  const auto complaint = decode(task, task.pick, task.encoded);
  if (!complaint) {
    handle_bad(task, complaint.error());
  } else if (!complaint->empty()) {
    flag(task, *complaint);
  }
}

void DecodeThread::run_box(const DeviceInput::Place& place, void* tensor) {
  const ops::CropBox& box = place.head->crop();
  const feedrace_cuda_picture& rows = place.picture.rows;
  if (rows.address == 0) {
    worker_.run_box(*place.head, place.picture.pixels.data(), std::size_t{3} * box.width_px,
                    tensor);
    return;
  }
  const auto row_bytes = static_cast<std::size_t>(rows.row_bytes);
  const auto fetched = copies_->fetch(rows.address, row_bytes * rows.height_px);
  worker_.run_box(*place.head, fetched.data() + std::size_t{3} * box.x_px, row_bytes, tensor);
}

Result<std::string> DecodeThread::decode(const DecodeTask& task, const order::Pick& pick,
                                         std::span<const std::byte> image) {
  if (to_device_) {
    const auto put = to_device_->put(image, *task.batch->on_device, task.index);
    return put ? Result<std::string>(std::string()) : put.error();
  }
  const auto place = [&task](ops::ImageSize size) -> void* {
    return task.batch->slot->make_image(task.index, size);
  };
  const auto crop_index = shared_.crops == nullptr ? std::span<const std::byte>()
                                                   : shared_.dataset.crop_index(pick.sample);
  const JpegStats before = worker_.jpeg_counts();
  auto complaint = worker_.run(image, pick.draw, pick.sample, place, crop_index);
  shared_.jpeg_counters.add(before, worker_.jpeg_counts());
  if (!crop_index.empty()) count_crop_use(pick.sample);
  return complaint;
}

void DecodeThread::count_crop_use(std::uint64_t sample) {
  const decode::CropUse use = worker_.crop_use();
  if (use.is_used) ++shared_.crops->used;
  if (use.refusal == nullptr) return;
  ++shared_.crops->refused;
  const std::string source = shared_.dataset.source_words(sample);
  shared_.fallbacks.add(shared_.crops->sentence(source + ": " + use.refusal, [&] {
    return fmt::format(
        "crop indexes that do not fit, the first that of {}: {}; such pictures are decoded without "
        "it, more slowly; make it anew with feedrace index {} --crop-index --rebuild",
        shared_.dataset.where(sample), use.refusal, source.empty() ? "PATH" : source);
  }));
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
