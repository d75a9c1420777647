// SPDX-License-Identifier: Apache-2.0
#include "feedrace/testing/faulty_backend.h"

#include <algorithm>
#include <cerrno>
#include <utility>

#include "feedrace/random.h"
#include "feedrace/storage/failures.h"

namespace feedrace::testing {
namespace {

std::string_view name_of(const storage::ReadRequest& request) noexcept {
  if (request.file != nullptr) return request.file->uri();
  return request.path != nullptr ? std::string_view(request.path) : std::string_view();
}

/// FNV-1a: a name as a number.
std::uint64_t number_of(std::string_view name) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3;
  return hash;
}

storage::Completion failed(const storage::ReadRequest& request, int error_number) noexcept {
  return {request.user_data,
          storage::read_failure(name_of(request), request.offset_bytes, request.destination.size(),
                                "pread", error_number),
          Path::kPageCache, 0};
}

}  // namespace

FaultyBackend::FaultyBackend(std::unique_ptr<storage::Backend> inner, FaultPlan plan)
    : inner_(std::move(inner)),
      plan_(std::move(plan)),
      depth_(inner_->limits().max_in_flight),
      collected_(depth_),
      ready_(depth_) {
  late_inside_.reserve(depth_);
  late_.reserve(depth_);
  hanging_.reserve(depth_);
}

Fault FaultyBackend::fault_of(const FaultPlan& plan, std::string_view name,
                              std::uint64_t offset_bytes) noexcept {
  // Without its folder: a test's temporary one is another in every run.
  const std::string_view own_name = name.substr(name.rfind('/') + 1);
  SampleRandom random(plan.seed, number_of(own_name), offset_bytes, 0);
  const double at = random.uniform();
  if (at < plan.error_share) return Fault::kError;
  if (at < plan.error_share + plan.short_share) return Fault::kShort;
  if (at < plan.error_share + plan.short_share + plan.late_share) return Fault::kLate;
  return Fault::kNone;
}

Result<void> FaultyBackend::register_memory(std::span<std::byte> memory) {
  return inner_->register_memory(memory);
}

Result<std::unique_ptr<storage::File>> FaultyBackend::open(std::string_view uri) {
  return inner_->open(uri);
}

std::size_t FaultyBackend::in_flight() const noexcept {
  return inside_ + late_.size() + hanging_.size() + ready_.size();
}

std::size_t FaultyBackend::submit(std::span<const storage::ReadRequest> requests) noexcept {
  std::size_t taken = 0;
  for (const storage::ReadRequest& request : requests) {
    if (in_flight() == depth_ || !take(request)) break;
    ++taken;
  }
  return taken;
}

bool FaultyBackend::take(storage::ReadRequest request) noexcept {
  if (plan_.hangs && plan_.hangs(request)) {
    hanging_.push_back(request);
    hanging_count_ = hanging_.size();
    return true;
  }
  const Fault fault = fault_of(plan_, name_of(request), request.offset_bytes);
  if (fault == Fault::kError) {
    ready_.push(failed(request, EIO));
    ++fault_count_;
    return true;
  }
  if (fault == Fault::kShort) {
    const std::size_t alignment = inner_->limits().alignment_bytes;
    const std::size_t half = request.destination.size() / 2 / alignment * alignment;
    request.destination = request.destination.first(half);
  }
  if (!pass_on(request, fault == Fault::kLate)) return false;
  if (fault != Fault::kNone) ++fault_count_;
  return true;
}

bool FaultyBackend::pass_on(storage::ReadRequest request, bool is_late) noexcept {
  if (inner_->submit({&request, 1}) == 0) return false;
  ++inside_;
  if (is_late) late_inside_.push_back(request.user_data);
  return true;
}

void FaultyBackend::collect(std::size_t min_count) noexcept {
  if (inside_ == 0) return;
  const std::size_t count = inner_->wait(collected_, min_count);
  inside_ -= count;
  for (std::size_t i = 0; i < count; ++i) {
    const auto late = std::find(late_inside_.begin(), late_inside_.end(), collected_[i].user_data);
    if (late == late_inside_.end()) {
      ready_.push(std::move(collected_[i]));
      continue;
    }
    late_inside_.erase(late);
    late_.push_back(std::move(collected_[i]));
  }
}

/// Late reads come when nothing else would, the last first.
void FaultyBackend::await_more() noexcept {
  if (inside_ > 0) return collect(1);
  if (!late_.empty()) {
    for (; !late_.empty(); late_.pop_back()) ready_.push(std::move(late_.back()));
    return;
  }
  std::unique_lock lock(mutex_);  // Only hanging reads are left.
  woken_.wait(lock, [this] { return interrupted_; });
}

std::size_t FaultyBackend::wait(std::span<storage::Completion> out,
                                std::size_t min_count) noexcept {
  const std::size_t wanted = std::min({min_count, out.size(), in_flight()});
  collect(0);
  while (ready_.size() < wanted && !interrupted()) await_more();
  // A poller must get the late ones some day too.
  if (wanted == 0 && ready_.empty() && inside_ == 0 && !late_.empty()) await_more();
  {
    std::lock_guard lock(mutex_);
    interrupted_ = false;
  }
  const std::size_t count = std::min(out.size(), ready_.size());
  for (storage::Completion& completion : out.first(count)) completion = ready_.pop();
  return count;
}

bool FaultyBackend::interrupted() noexcept {
  std::lock_guard lock(mutex_);
  return interrupted_;
}

void FaultyBackend::cancel_all() noexcept {
  inner_->cancel_all();
  for (const storage::ReadRequest& request : hanging_) ready_.push(failed(request, ECANCELED));
  hanging_.clear();
  hanging_count_ = 0;
}

void FaultyBackend::interrupt() noexcept {
  {
    std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  woken_.notify_one();
  inner_->interrupt();
}

}  // namespace feedrace::testing
