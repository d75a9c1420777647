// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/uring_backend.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <utility>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/storage/clock.h"
#include "feedrace/storage/failures.h"

namespace feedrace::storage {
namespace {

// A ring entry's user_data: slot and step, or one of these.
constexpr std::uint64_t kWakeData = LIBURING_UDATA_TIMEOUT - 1;
constexpr std::uint64_t kCancelData = LIBURING_UDATA_TIMEOUT - 2;
constexpr unsigned kStepBits = 2;

/// The kernel reads no more than 2 GiB less a page at a time; the rest is read on.
constexpr std::size_t kMaxEntryBytes = std::size_t{1} << 30;

/// Places for opened shards in a ring's table: as many as a file cache keeps open at most.
constexpr unsigned kFixedFiles = 1024;

constexpr const char* kUnpolled =
    "reads could not be polled for (IOPOLL) and were waited for one by one; use O_DIRECT on a "
    "device with polled queues (nvme.poll_queues), or leave polling out";

/// A read that the kernel sends back this often has a reason that trying again does not cure.
constexpr std::uint32_t kMaxRetries = 1000;

std::uint64_t data_of(std::uint32_t index, unsigned step) noexcept {
  return std::uint64_t{index} << kStepBits | step;
}

const char* call_of(unsigned step) noexcept {
  constexpr const char* kCalls[] = {"io_uring read", "io_uring openat", "io_uring read",
                                    "io_uring close"};
  return kCalls[step];
}

/// Half of what the process may have open, less what it needs itself: a file may take two.
std::size_t most_open_files() noexcept {
  constexpr std::size_t kReserved = 16;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return 4096;
  return std::clamp<std::size_t>(limit.rlim_cur, kReserved + 2, kReserved + 8192) / 2 -
         kReserved / 2;
}

/// ECANCELED that nobody asked for: an earlier cancellation of everything met a later read.
bool is_transient(int error_number) noexcept {
  return error_number == EAGAIN || error_number == EINTR || error_number == ECANCELED;
}

}  // namespace

Result<std::unique_ptr<UringBackend>> UringBackend::create(const UringOptions& options) {
  // Room for the longest chain of every slot, the wake-up and a cancellation: entries never run
  // out. The kernel makes the completion queue twice as long.
  const auto entries = std::bit_ceil(static_cast<unsigned>(options.queue_depth * kStepCount + 2));
  auto ring = UringRing::create(entries, options.ring);
  if (!ring) return ring.error();
  const auto depth = static_cast<unsigned>(options.queue_depth);
  const unsigned open_files = options.fixed_files ? kFixedFiles : 0;
  // The kernel gives a table no more places than the process may have files open.
  const bool has_large_table = (*ring)->add_file_slots(depth + open_files);
  const bool has_table = has_large_table || (*ring)->add_file_slots(depth);
  const bool chains =
      options.whole_files != WholeFiles::kOpenFirst && has_table && !options.ring.iopoll;
  if (options.whole_files == WholeFiles::kChain && !chains) {
    return Failure{
        ErrorCode::kUnsupported,
        fmt::format("uring: a table of {} files can't be had; use Linux 5.19 or newer, or "
                    "raise the limit of open files (ulimit -n)",
                    options.queue_depth)};
  }
  FileDescriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!wake) {
    return Failure{ErrorCode::kUnsupported,
                   fmt::format("uring: {}; raise the limit of open files (ulimit -n)",
                               errno_text("eventfd", errno))};
  }
  std::unique_ptr<UringBackend> made(
      new UringBackend(*std::move(ring), std::move(wake), chains, options));
  if (has_large_table && open_files > 0) {
    made->fixed_files_ = std::make_shared<FixedFiles>(*made->ring_, depth, open_files);
  }
  return made;
}

UringBackend::UringBackend(std::unique_ptr<UringRing> ring, FileDescriptor wake, bool chains,
                           const UringOptions& options)
    : ring_(std::move(ring)),
      wake_(std::move(wake)),
      chains_(chains),
      is_polled_(options.ring.iopoll),
      table_(options.access),
      unpolled_(table_.log().counter(kUnpolled)),
      slots_(options.queue_depth),
      max_open_(most_open_files()),
      ready_(options.queue_depth) {
  deferred_.reserve(slots_.size());
  free_.reserve(slots_.size());
  for (std::size_t i = slots_.size(); i > 0; --i)
    free_.push_back(static_cast<std::uint32_t>(i - 1));
}

UringBackend::~UringBackend() {
  cancel_all();
  while (active() > 0 && enter(1)) reap();
  if (fixed_files_) fixed_files_->detach();
}

Result<void> UringBackend::register_memory(std::span<std::byte> memory) {
  return ring_->register_memory(memory);
}

Result<std::unique_ptr<File>> UringBackend::open(std::string_view uri) {
  auto opened = open_posix(uri, table_);
  if (!opened) return opened.error();
  PosixFile& file = **opened;
  if (fixed_files_) {
    const OpenFile& open = file.open();
    file.fixed = fixed_files_->add(open.direct ? open.direct.get() : open.cached.get());
  }
  return std::unique_ptr<File>(*std::move(opened));
}

/// Binds the ring to this thread, once. False when that failed: no read can be sent then.
bool UringBackend::begin() noexcept {
  if (begun_) return begin_error_ == 0;
  begun_ = true;
  begin_error_ = ring_->enable();
  if (begin_error_ == 0 && !is_polled_) queue_wake();
  return begin_error_ == 0;
}

std::size_t UringBackend::submit(std::span<const ReadRequest> requests) noexcept {
  begin();
  if (fixed_files_) fixed_files_->release_closed();
  const std::size_t room = slots_.size() - active() - ready_.size();
  const std::size_t taken = std::min(requests.size(), room);
  const std::uint64_t start_ns = reaped_ns_ = now_ns();
  for (const ReadRequest& request : requests.first(taken)) {
    const std::uint32_t index = free_.back();
    free_.pop_back();
    Slot& slot = slots_[index];
    slot = Slot{};
    slot.request = request;
    slot.start_ns = start_ns;
    slot.in_use = true;
    start(index);
  }
  flush();
  return taken;
}

std::size_t UringBackend::wait(std::span<Completion> out, std::size_t min_count) noexcept {
  if (begin()) {
    const std::size_t wanted = std::min({min_count, out.size(), active() + ready_.size()});
    bool go_on = min_count > 0 || active() == 0 || enter(0);
    reap();
    while (go_on && ready_.size() < wanted && !interrupted_.load()) {
      // A read takes one completion of the kernel or more, so that many can be waited for at once.
      go_on = enter(static_cast<unsigned>(wanted - ready_.size()));
      reap();
    }
    interrupted_ = false;
    flush();
  }
  const std::size_t count = std::min(out.size(), ready_.size());
  for (Completion& completion : out.first(count)) completion = ready_.pop();
  return count;
}

void UringBackend::cancel_all() noexcept {
  if (active() == 0) return;
  for (Slot& slot : slots_) slot.cancelled = slot.in_use;
  cancelled_count_ = active();
  queue_cancel();
  flush();
}

void UringBackend::interrupt() noexcept {
  interrupted_ = true;
  const std::uint64_t one = 1;
  // Fails only when the counter is full, and then the ring wakes up anyway.
  [[maybe_unused]] const ssize_t written = write(wake_.get(), &one, sizeof one);
}

// ---- Queueing ----------------------------------------------------------------------------------

// io_uring_get_sqe() never fails here: create() made room for every entry that can be queued.

void UringBackend::queue_wake() noexcept {
  io_uring_sqe* entry = io_uring_get_sqe(ring_->get());
  io_uring_prep_poll_add(entry, wake_.get(), POLLIN);
  io_uring_sqe_set_data64(entry, kWakeData);
}

void UringBackend::queue_cancel() noexcept {
  if (cancel_in_flight_ || is_polled_) return;  // Polled reads end by themselves.
  io_uring_sqe* entry = io_uring_get_sqe(ring_->get());
  io_uring_prep_cancel(entry, nullptr, IORING_ASYNC_CANCEL_ANY | IORING_ASYNC_CANCEL_ALL);
  io_uring_sqe_set_data64(entry, kCancelData);
  cancel_in_flight_ = true;
}

void UringBackend::start(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  Result<Target> target = target_of(slot.request);
  if (!target) return finish(index, target.error());
  slot.target = *target;
  if (begin_error_ != 0) {
    return finish(index,
                  read_failure(slot.target.name, slot.request.offset_bytes,
                               slot.request.destination.size(), "io_uring_register", begin_error_));
  }
  send(index);
}

/// Sends what the read needs next.
void UringBackend::send(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  const bool is_open = slot.target.file != nullptr || slot.own.cached || slot.own.direct;
  if (is_open) return queue_read(index);
  if (!may_chain(slot)) return open_first(index);
  slot.folder = direct_whole(slot.request.path, slot.request.destination, table_);
  if (slot.folder) return queue_direct_chain(index);
  // What is to leave no pages behind needs a look at the file first.
  table_.wanted() == Access::kPageCache ? queue_chain(index) : open_first(index);
}

bool UringBackend::may_chain(const Slot& slot) const noexcept {
  return chains_ && !slot.short_chain && slot.request.destination.size() <= kMaxEntryBytes;
}

void UringBackend::queue_read(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  const PosixFile* file = slot.target.file;
  const OpenFile& open = file != nullptr ? file->open() : slot.own;
  const auto rest = slot.request.destination.subspan(slot.done_bytes);
  const auto part = rest.first(std::min(rest.size(), kMaxEntryBytes));
  const std::uint64_t offset = slot.request.offset_bytes + slot.done_bytes;
  const auto route = open.route(slot.target.name, offset, part, slot.done_bytes > 0);
  if (!route) return finish(index, route.error());
  slot.route = *route;
  slot.asked_bytes = part.size();
  if (slot.done_bytes == 0) slot.path = route->path;
  slot.way = Way::kRange;
  if (is_polled_ && (route->path != Path::kDirect || slot.is_unpolled)) return read_here(index);
  io_uring_sqe* entry = io_uring_get_sqe(ring_->get());
  const bool is_fixed = file != nullptr && file->fixed && file->fixed->is_in(fixed_files_.get()) &&
                        file->fixed->fd() == route->fd;
  prepare_read(entry, is_fixed ? static_cast<int>(file->fixed->index()) : route->fd, part, offset);
  if (is_fixed) entry->flags |= IOSQE_FIXED_FILE;
  entry->rw_flags = route->flags;
  io_uring_sqe_set_data64(entry, data_of(index, kRead));
  slot.pending = 1;
}

/// What a ring that polls can't read: at once, in this thread, and counted.
void UringBackend::read_here(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  ++unpolled_;
  const OpenFile& open = slot.target.file != nullptr ? slot.target.file->open() : slot.own;
  const auto rest = slot.request.destination.subspan(slot.done_bytes);
  const std::atomic<std::uint64_t> never{0};
  const RangeRead read = read_range(open, slot.target.name,
                                    slot.request.offset_bytes + slot.done_bytes, rest, {never, 0});
  system_calls_ += read.call_count;
  if (read.refused) return finish(index, *read.refused);
  if (read.error_number != 0) {
    return finish(index,
                  read_failure(slot.target.name, slot.request.offset_bytes,
                               slot.request.destination.size(), "preadv2", read.error_number));
  }
  finish(index, slot.done_bytes + read.bytes);
}

void UringBackend::prepare_read(io_uring_sqe* entry, int fd, std::span<std::byte> destination,
                                std::uint64_t offset_bytes) noexcept {
  const auto size = static_cast<unsigned>(destination.size());
  const int buffer = ring_->buffer_of(destination);
  if (buffer < 0) {
    io_uring_prep_read(entry, fd, destination.data(), size, offset_bytes);
  } else {
    io_uring_prep_read_fixed(entry, fd, destination.data(), size, offset_bytes, buffer);
  }
}

/// Open, read, close, without a look for more: a direct read that is short has met the file's end
/// (`FileSystemAccess::has_exact_ends`). A short read breaks a plain link, so it is hard-linked:
/// the close must come in any case.
void UringBackend::queue_direct_chain(std::uint32_t index) noexcept {
  // O_CLOEXEC is refused for a place in the table, which no program inherits.
  constexpr int kFlags = kDirectOpenFlags & ~O_CLOEXEC;
  Slot& slot = slots_[index];
  io_uring* ring = ring_->get();

  io_uring_sqe* entry = io_uring_get_sqe(ring);
  io_uring_prep_openat_direct(entry, AT_FDCWD, slot.request.path, kFlags, 0, index);
  entry->flags |= IOSQE_IO_LINK;
  io_uring_sqe_set_data64(entry, data_of(index, kOpen));

  entry = io_uring_get_sqe(ring);
  prepare_read(entry, static_cast<int>(index), slot.request.destination, 0);
  entry->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
  io_uring_sqe_set_data64(entry, data_of(index, kRead));

  entry = io_uring_get_sqe(ring);
  io_uring_prep_close_direct(entry, index);
  io_uring_sqe_set_data64(entry, data_of(index, kClose));
  slot.way = Way::kDirectChain;
  slot.path = Path::kDirect;
  slot.pending = 3;
}

/// Open, read, look for more, close. The file lives in the slot's place of the ring's table and
/// never gets a descriptor. A short read breaks a plain link, so the reads are hard-linked: the
/// close must come in any case. The second read, of one byte, tells the end of the file from a read
/// that stopped before; without it a disk error in the middle would pass for a short file.
void UringBackend::queue_chain(std::uint32_t index) noexcept {
  constexpr std::uint64_t kOn = ~std::uint64_t{0};  // At the file's position, which reads advance.
  Slot& slot = slots_[index];
  const int place = static_cast<int>(index);
  io_uring* ring = ring_->get();

  io_uring_sqe* entry = io_uring_get_sqe(ring);
  io_uring_prep_openat_direct(entry, AT_FDCWD, slot.request.path, O_RDONLY | O_NOCTTY, 0, index);
  entry->flags |= IOSQE_IO_LINK;
  io_uring_sqe_set_data64(entry, data_of(index, kOpen));

  entry = io_uring_get_sqe(ring);
  prepare_read(entry, place, slot.request.destination, kOn);
  entry->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
  io_uring_sqe_set_data64(entry, data_of(index, kRead));

  entry = io_uring_get_sqe(ring);
  io_uring_prep_read(entry, place, &slot.probe, 1, kOn);
  entry->flags |= IOSQE_FIXED_FILE | IOSQE_IO_HARDLINK;
  io_uring_sqe_set_data64(entry, data_of(index, kProbe));

  entry = io_uring_get_sqe(ring);
  io_uring_prep_close_direct(entry, index);
  io_uring_sqe_set_data64(entry, data_of(index, kClose));
  slot.way = Way::kChain;
  slot.path = Path::kPageCache;
  slot.pending = kStepCount;
}

void UringBackend::open_first(std::uint32_t index) noexcept {
  if (open_count_ >= max_open_) return deferred_.push_back(index);
  Slot& slot = slots_[index];
  slot.own = open_whole(slot.request.path, slot.request.destination, table_);
  const int fd = slot.own.direct ? slot.own.direct.get() : slot.own.cached.get();
  if (fd >= 0) ++open_count_;
  // A ring does not wait for a file that is in O_NONBLOCK mode, on some file systems.
  const bool is_open = fd >= 0 && fcntl(fd, F_SETFL, slot.own.direct ? O_DIRECT : 0) == 0;
  if (!is_open) return finish(index, open_failure(slot.target.name, "openat", errno));
  system_calls_ += 3;  // With the close.
  queue_read(index);
}

/// Those that waited for the end of others.
void UringBackend::open_deferred() noexcept {
  while (!deferred_.empty() && open_count_ < max_open_) {
    const std::uint32_t index = deferred_.back();
    deferred_.pop_back();
    slots_[index].cancelled ? stopped(index, kRead, ECANCELED) : open_first(index);
  }
}

void UringBackend::flush() noexcept {
  // Three times: a kernel without SUBMIT_ALL stops at an entry that fails at once. What is left
  // goes with the next wait.
  for (int i = 0; i < 3 && io_uring_sq_ready(ring_->get()) > 0; ++i) {
    if (ring_->submit_enters()) ++system_calls_;
    io_uring_submit(ring_->get());
  }
}

// ---- Collecting --------------------------------------------------------------------------------

/// Submits, and waits for `min_count` completions of the kernel or, while reads are being
/// cancelled, for any. False when this thread may not.
bool UringBackend::enter(unsigned min_count) noexcept {
  io_uring* ring = ring_->get();
  int error = 0;
  ++system_calls_;
  if (min_count == 0 || is_polled_) {
    // A polled ring spins in any case; in this way an interruption is seen.
    error = io_uring_submit_and_get_events(ring);
  } else if (cancelled_count_ == 0) {
    error = io_uring_submit_and_wait(ring, min_count);
  } else {
    // A cancellation ends the step of a chain that it meets, and the next one starts behind its
    // back: so again, until all are through.
    queue_cancel();
    __kernel_timespec pause{0, 2'000'000};
    io_uring_cqe* first = nullptr;
    error = io_uring_submit_and_wait_timeout(ring, &first, 1, &pause, nullptr);
  }
  if (error == -EEXIST) return false;
  // EAGAIN, ENOMEM: the kernel is short of memory. Every read is still known to it or to us.
  const bool is_late = error == -EAGAIN || error == -EBUSY || error == -ENOMEM;
  if (is_late && min_count > 0) usleep(1000);
  return true;
}

void UringBackend::reap() noexcept {
  io_uring_cqe* entry = nullptr;
  unsigned head = 0;
  unsigned count = 0;
  io_uring_for_each_cqe(ring_->get(), head, entry) {
    if (count++ == 0) reaped_ns_ = now_ns();
    handle(entry->user_data, entry->res);
  }
  io_uring_cq_advance(ring_->get(), count);
  open_deferred();
}

void UringBackend::handle(std::uint64_t user_data, std::int32_t result) noexcept {
  if (user_data == kWakeData) {
    std::uint64_t count = 0;
    [[maybe_unused]] const ssize_t got = read(wake_.get(), &count, sizeof count);
    return queue_wake();
  }
  if (user_data == kCancelData) {
    cancel_in_flight_ = false;
    return;
  }
  if (user_data == LIBURING_UDATA_TIMEOUT) return;
  const auto index = static_cast<std::uint32_t>(user_data >> kStepBits);
  Slot& slot = slots_[index];
  slot.results[user_data & (kStepCount - 1)] = result;
  if (--slot.pending > 0) return;
  switch (slot.way) {
    case Way::kRange:
      return read_done(index);
    case Way::kChain:
      return chain_done(index);
    case Way::kDirectChain:
      return direct_chain_done(index);
  }
}

void UringBackend::read_done(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  const std::int32_t result = slot.results[kRead];
  const OpenFile& open = slot.target.file != nullptr ? slot.target.file->open() : slot.own;
  if (result < 0 && is_polled_ && result == -EOPNOTSUPP && !slot.is_unpolled) {
    slot.is_unpolled = true;
    return queue_read(index);
  }
  if (result < 0 && !slot.cancelled && is_other_way_left(slot.route, open, -result)) {
    return queue_read(index);
  }
  if (result < 0) return stopped(index, kRead, -result);
  const auto bytes = static_cast<std::size_t>(result);
  if (slot.route.drops_pages) {
    drop_pages(slot.route.fd, slot.request.offset_bytes + slot.done_bytes, bytes);
    ++system_calls_;
  }
  slot.done_bytes += bytes;
  const std::uint64_t end = slot.request.offset_bytes + slot.done_bytes;
  const bool is_full = slot.done_bytes == slot.request.destination.size();
  const bool is_short = bytes < slot.asked_bytes;
  if (result == 0 || is_full || end == open.size_bytes ||
      (is_short && is_exact_end(slot.route, open, bytes))) {
    return finish(index, slot.done_bytes);
  }
  if (slot.cancelled) return stopped(index, kRead, ECANCELED);
  queue_read(index);
}

void UringBackend::direct_chain_done(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  const bool is_open = slot.results[kOpen] >= 0;
  const std::int32_t result = is_open ? slot.results[kRead] : slot.results[kOpen];
  if (result >= 0) return finish(index, static_cast<std::size_t>(result));
  if (!slot.cancelled && !is_open &&
      learn_from_failed_open(slot.request.path, *slot.folder, table_, -result)) {
    slot.short_chain = true;  // Opened first now, to see what it is.
    return send(index);
  }
  if (!slot.cancelled && is_open && result == -EINVAL) {
    slot.folder->direct_failed(-result);
    return send(index);
  }
  stopped(index, is_open ? kRead : kOpen, -result);
}

void UringBackend::chain_done(std::uint32_t index) noexcept {
  Slot& slot = slots_[index];
  if (slot.results[kOpen] < 0) return stopped(index, kOpen, -slot.results[kOpen]);
  if (slot.results[kRead] < 0) return stopped(index, kRead, -slot.results[kRead]);
  const auto bytes = static_cast<std::size_t>(slot.results[kRead]);
  const bool is_full = bytes == slot.request.destination.size();
  if (is_full || slot.results[kProbe] == 0) return finish(index, bytes);
  if (slot.results[kProbe] < 0) {
    slot.done_bytes = bytes;
    return stopped(index, kProbe, -slot.results[kProbe]);
  }
  // There is more than the first read gave. Again, through a descriptor that stays for as many
  // reads as it takes.
  slot.short_chain = true;
  if (slot.cancelled) return stopped(index, kRead, ECANCELED);
  send(index);
}

/// A step gave an error: the read is cancelled, tried again, or failed.
void UringBackend::stopped(std::uint32_t index, Step step, int error_number) noexcept {
  Slot& slot = slots_[index];
  if (is_transient(error_number) && !slot.cancelled && slot.retries < kMaxRetries) {
    ++slot.retries;
    if (slot.way != Way::kRange) slot.done_bytes = 0;
    return send(index);
  }
  if (is_transient(error_number) && slot.cancelled) error_number = ECANCELED;
  if (step == kOpen && error_number != ECANCELED) {
    return finish(index, open_failure(slot.target.name, call_of(step), error_number));
  }
  finish(index, read_failure(slot.target.name, slot.request.offset_bytes,
                             slot.request.destination.size(), call_of(step), error_number));
}

void UringBackend::finish(std::uint32_t index, Result<std::size_t> bytes_read) noexcept {
  Slot& slot = slots_[index];
  ready_.push(
      {slot.request.user_data, std::move(bytes_read), slot.path, reaped_ns_ - slot.start_ns});
  if (slot.own.cached || slot.own.direct) --open_count_;
  slot.own = OpenFile();
  slot.folder.reset();
  slot.in_use = false;
  if (slot.cancelled) --cancelled_count_;
  free_.push_back(index);
}

}  // namespace feedrace::storage
