// SPDX-License-Identifier: Apache-2.0
// Cancels at random points of random work, thousands of times: every read completes once, nothing
// that completed is wrong, and no buffer is written once its read is over.

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/storage/backend_contract.h"

namespace feedrace::storage {
namespace {

constexpr std::uint64_t kCancellations = 2'000;  // Of each back end; 16,000 together.
constexpr int kDestructions = 200;
constexpr std::size_t kDepth = 16;

testing::FaultPlan fault_plan() {
  testing::FaultPlan plan;
  plan.error_share = 0.05;
  plan.late_share = 0.2;
  return plan;
}

std::unique_ptr<Backend> make_faulty_direct(std::size_t queue_depth) {
  auto inner = make_uring<WholeFiles::kChain, true, Access::kDirect>(queue_depth);
  return std::make_unique<testing::FaultyBackend>(std::move(inner), fault_plan());
}

std::unique_ptr<Backend> make_slow_direct(std::size_t queue_depth) {
  return std::make_unique<testing::SlowBackend>(make_threads<Access::kDirect>(queue_depth),
                                                testing::Latency{0, 50'000, 1});
}

const Variant kCancelled[] = {
    {"UringDirectRegistered", make_uring<WholeFiles::kChain, true, Access::kDirect>, true},
    {"UringChain", make_uring<WholeFiles::kChain, true>},
    {"UringChainPlainRing", make_uring<WholeFiles::kChain, false>},
    {"UringSqpoll", make_special<true, false, true>, true},
    {"UringDirectOpenFirst", make_uring<WholeFiles::kOpenFirst, false, Access::kDirect>},
    {"Direct", make_threads<Access::kDirect>},
    {"UringFaulty", make_faulty_direct, true},
    {"SlowDirect", make_slow_direct},
};

/// A disk's reads can't be called back, so rings show what cancelling does by what can be: an open.
bool can_cancel_opens(const Variant& variant) { return variant.name.starts_with("UringChain"); }

/// Files whose bytes tell which file and which offset they are of. The last one is a FIFO that
/// nobody writes to: a ring that opens it hangs until it is cancelled, as on a dead mount.
class KnownFiles {
 public:
  KnownFiles() {
    for (const std::size_t size : {0, 1, 511, 4096, 10'000, 65'536, 100'003, 300'000}) {
      std::string content(size, '\0');
      testing::NullBackend::fill(std::as_writable_bytes(std::span(content)), shift(paths_.size()));
      paths_.push_back(folder_.write("file" + std::to_string(paths_.size()), content));
      sizes_.push_back(size);
      const FileDescriptor fd(::open(paths_.back().c_str(), O_RDONLY | O_CLOEXEC));
      fsync(fd.get());  // Or its pages can't be given up.
    }
    paths_.push_back(folder_ / "fifo");
    sizes_.push_back(0);
    EXPECT_EQ(mkfifo(paths_.back().c_str(), 0600), 0);
  }
  std::size_t fifo_number() const { return paths_.size() - 1; }
  std::size_t regular_count() const { return paths_.size() - 1; }
  const std::string& path(std::size_t file) const { return paths_[file]; }
  std::size_t size_bytes(std::size_t file) const { return sizes_[file]; }

  bool holds(std::size_t file, std::uint64_t offset, std::span<const std::byte> bytes) const {
    return is_known(bytes, shift(file) + offset);
  }
  void evict(std::size_t file) const {
    const FileDescriptor fd(::open(paths_[file].c_str(), O_RDONLY | O_CLOEXEC));
    posix_fadvise(fd.get(), 0, 0, POSIX_FADV_DONTNEED);
  }

 private:
  static std::uint64_t shift(std::size_t file) { return file * 1'000'003; }

  const testing::TempDir folder_;
  std::vector<std::string> paths_;
  std::vector<std::size_t> sizes_;
};

/// A destination between two canaries. While no read owns it, all of it is quiet.
class Berth {
 public:
  static constexpr std::size_t kCanaryBytes = 4096;
  static constexpr std::size_t kRoomBytes = 32 << 10;
  static constexpr std::size_t kBytes = kRoomBytes + 2 * kCanaryBytes;

  explicit Berth(std::span<std::byte> memory) : memory_(memory) { quieten(); }

  void quieten() { std::memset(memory_.data(), kQuiet, memory_.size()); }
  bool is_quiet() const { return is_filled_with(memory_, std::byte{kQuiet}); }
  std::span<std::byte> destination(std::size_t offset, std::size_t size) const {
    return memory_.subspan(kCanaryBytes + offset, size);
  }
  bool are_canaries_alive(std::span<const std::byte> destination) const {
    const auto before = static_cast<std::size_t>(destination.data() - memory_.data());
    const std::byte quiet{kQuiet};
    return is_filled_with(memory_.first(before), quiet) &&
           is_filled_with(memory_.subspan(before + destination.size()), quiet);
  }

 private:
  static constexpr int kQuiet = 0xa5;
  std::span<std::byte> memory_;
};

/// Random work for one back end, and what became of it.
class Storm {
 public:
  Storm(const Variant& variant, const KnownFiles& files, std::uint32_t seed)
      : files_(files),
        random_(seed),
        is_faulty_(variant.name.find("Faulty") != std::string::npos),
        opens_fifos_(can_cancel_opens(variant)),
        memory_(kDepth * Berth::kBytes),
        opened_(files.regular_count()),
        reads_(kDepth) {
    for (std::size_t i = 0; i < kDepth; ++i) {
      berths_.emplace_back(memory_.bytes().subspan(i * Berth::kBytes, Berth::kBytes));
      free_.push_back(i);
    }
    backend_ = variant.make(kDepth);
    if (!variant.registers) return;
    const auto registered = backend_->register_memory(memory_.bytes());
    EXPECT_TRUE(registered) << registered.error().message;
  }

  std::uint64_t cancel_count() const { return cancel_count_; }
  std::uint64_t cancelled_reads() const { return cancelled_reads_; }
  std::uint64_t served_reads() const { return served_reads_; }

  void step() {
    if (below(8) == 0) files_.evict(below(files_.regular_count()));
    if (below(16) == 0)
      opened_[below(files_.regular_count())].reset();  // Opened anew for the next read.
    submit(1 + below(kDepth));
    if (below(2) == 0) wait(below(kDepth + 1));
    if (in_flight() > 0 && below(4) != 0) cancel();
    if (below(16) == 0) backend_->interrupt();
    if (below(3) != 0) wait(below(kDepth + 1));
    if (below(8) == 0) drain();
  }

  void drain() {
    while (in_flight() > 0 && !::testing::Test::HasFailure()) {
      if (in_flight() == hanging_) cancel();
      wait(1);
    }
    std::array<Completion, 1> none;
    EXPECT_EQ(backend_->wait(none, 1), 0U) << "more completions than reads";
    for (const std::size_t berth : free_) EXPECT_TRUE(berths_[berth].is_quiet());
  }

  /// Ends the back end under the reads in flight. Nothing may be written from then on.
  void destroy() {
    backend_.reset();
    for (Berth& berth : berths_) berth.quieten();
    std::vector<std::shared_ptr<File>>(opened_.size()).swap(opened_);  // They outlive it.
    for (std::optional<Read>& read : reads_) read.reset();
  }
  bool is_quiet() const {
    return std::all_of(berths_.begin(), berths_.end(), [](const Berth& b) { return b.is_quiet(); });
  }

 private:
  struct Read {
    ReadRequest request;
    std::size_t file = 0;
    std::shared_ptr<File> open;       // Null: a whole file.
    std::uint64_t cancellations = 0;  // Before it was submitted.
  };

  std::size_t below(std::size_t bound) { return random_() % bound; }
  std::size_t in_flight() const { return kDepth - free_.size(); }

  void submit(std::size_t count) {
    std::vector<ReadRequest> requests;
    std::vector<Read> reads;
    for (std::size_t i = 0; i < std::min(count, free_.size()); ++i) {
      reads.push_back(make_read(free_[free_.size() - 1 - i]));
      requests.push_back(reads.back().request);
    }
    const std::size_t taken = backend_->submit(requests);
    EXPECT_EQ(taken, requests.size()) << "there was room";
    for (std::size_t i = 0; i < taken; ++i) {
      if (may_hang(reads[i])) ++hanging_;
      reads_[free_.back()] = std::move(reads[i]);
      free_.pop_back();
    }
  }

  bool may_hang(const Read& read) const {
    return read.file == files_.fifo_number() && read.cancellations == cancel_count_;
  }

  Read make_read(std::size_t berth) {
    EXPECT_TRUE(berths_[berth].is_quiet()) << "written while no read owned it";
    Read read;
    read.file = below(files_.regular_count());
    read.cancellations = cancel_count_;
    read.request.user_data = berth;
    const std::size_t unit = below(2) == 0 ? 1 : 4096;
    const auto aligned = [&](std::size_t bytes) { return bytes / unit * unit; };
    const std::size_t at = aligned(below(Berth::kRoomBytes / 2));
    const std::size_t room = Berth::kRoomBytes - at;
    const std::size_t size = below(4) == 0 ? room : std::max(unit, aligned(below(room)));
    read.request.destination = berths_[berth].destination(at, size);
    if (opens_fifos_ && below(12) == 0) read.file = files_.fifo_number();
    if (read.file == files_.fifo_number() || below(3) == 0) {
      read.request.path = files_.path(read.file).c_str();
      return read;
    }
    read.request.offset_bytes = aligned(below(files_.size_bytes(read.file) + 5000));
    read.open = opened_[read.file] ? opened_[read.file] : open(read.file);
    read.request.file = read.open.get();
    return read;
  }

  std::shared_ptr<File> open(std::size_t file) {
    auto opened = backend_->open(files_.path(file));
    EXPECT_TRUE(opened);
    return opened_[file] = *std::move(opened);
  }

  void cancel() {
    backend_->cancel_all();
    ++cancel_count_;
    hanging_ = 0;
  }

  void wait(std::size_t min_count) {
    std::array<Completion, kDepth> out;
    const std::size_t room = 1 + below(kDepth);
    const std::size_t coming = in_flight() - hanging_;
    const std::size_t count =
        backend_->wait(std::span(out).first(room), std::min(min_count, coming));
    for (Completion& completion : std::span(out).first(count)) take(completion);
  }

  void take(const Completion& completion) {
    const auto berth = static_cast<std::size_t>(completion.user_data);
    ASSERT_LT(berth, kDepth);
    ASSERT_TRUE(reads_[berth]) << "completed twice";
    const Read read = *std::exchange(reads_[berth], std::nullopt);
    if (may_hang(read)) --hanging_;
    check(read, completion);
    EXPECT_TRUE(berths_[berth].are_canaries_alive(read.request.destination));
    berths_[berth].quieten();
    free_.insert(free_.begin() + static_cast<std::ptrdiff_t>(below(free_.size() + 1)), berth);
  }

  void check(const Read& read, const Completion& completion) {
    const auto& [request, file, open, cancellations] = read;
    const std::string& name = files_.path(file);
    const bool is_bad =
        is_faulty_ && testing::FaultyBackend::fault_of(fault_plan(), name, request.offset_bytes) ==
                          testing::Fault::kError;
    if (!completion.bytes_read) {
      const Failure& failure = completion.bytes_read.error();
      if (is_bad && failure.code == ErrorCode::kIo) return;
      EXPECT_EQ(failure.code, ErrorCode::kCancelled) << failure.message;
      EXPECT_LT(cancellations, cancel_count_) << "nobody has cancelled it: " << failure.message;
      ++cancelled_reads_;
      return;
    }
    EXPECT_FALSE(is_bad);
    ++served_reads_;
    const std::size_t end = files_.size_bytes(file);
    const std::size_t rest = end - std::min<std::size_t>(end, request.offset_bytes);
    ASSERT_EQ(*completion.bytes_read, std::min(rest, request.destination.size()));
    EXPECT_TRUE(
        files_.holds(file, request.offset_bytes, request.destination.first(*completion.bytes_read)))
        << name << " at " << request.offset_bytes;
  }

  const KnownFiles& files_;
  std::mt19937 random_;
  const bool is_faulty_;
  const bool opens_fifos_;
  HostMemory memory_;
  std::vector<Berth> berths_;
  std::vector<std::size_t> free_;
  std::vector<std::shared_ptr<File>> opened_;
  std::vector<std::optional<Read>> reads_;  // By berth.
  std::unique_ptr<Backend> backend_;        // Gone before what it writes to.
  std::size_t hanging_ = 0;  // Reads in flight that may wait for a cancellation still.
  std::uint64_t cancel_count_ = 0;
  std::uint64_t cancelled_reads_ = 0;
  std::uint64_t served_reads_ = 0;
};

class Cancellation : public ::testing::TestWithParam<Variant> {
 protected:
  void SetUp() override {
    if (!GetParam().name.starts_with("Uring")) return;
    if (const auto probe = probe_uring(); !probe) GTEST_SKIP() << probe.error().message;
  }

  const KnownFiles files_;
};

INSTANTIATE_TEST_SUITE_P(All, Cancellation, ::testing::ValuesIn(kCancelled),
                         [](const auto& variant) { return variant.param.name; });

TEST_P(Cancellation, CompletesEveryReadOnceAndRightAtAnyPoint) {
  Storm storm(GetParam(), files_, 1);
  while (storm.cancel_count() < kCancellations && !HasFailure()) storm.step();
  storm.drain();
  // Neither all nor none: or the storm has shown nothing.
  EXPECT_GT(storm.served_reads(), kCancellations);
  const bool is_threads = !GetParam().name.starts_with("Uring");
  if (is_threads || can_cancel_opens(GetParam())) {
    EXPECT_GT(storm.cancelled_reads(), kCancellations / 10);
  }
}

TEST_P(Cancellation, EndsTheBackEndAtAnyPoint) {
  std::vector<std::unique_ptr<Storm>> ended;
  for (std::uint32_t seed = 0; seed < kDestructions && !HasFailure(); ++seed) {
    auto storm = std::make_unique<Storm>(GetParam(), files_, seed);
    for (std::uint32_t i = 0; i <= seed % 4; ++i) storm->step();
    storm->destroy();
    ended.push_back(std::move(storm));
    if (ended.size() < 10) continue;
    for (const auto& each : ended) EXPECT_TRUE(each->is_quiet()) << "written after the end";
    ended.clear();
  }
}

}  // namespace
}  // namespace feedrace::storage
