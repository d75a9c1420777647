// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cerrno>
#include <ctime>
#include <vector>

#include <fmt/format.h>

#include "feedrace/cuda/plugin/direct.h"
#include "feedrace/cuda/plugin/direct_errors.h"
#include "feedrace/cuda/plugin/direct_read.h"

namespace feedrace::cuda_plugin {
namespace {

// In compatible mode each read in flight takes one of cuFile's 64 slabs, and Submit waits for ever
// for the 65th.
constexpr std::size_t kMostInFlight = 32;
// Each waits as long; a drive that gives nothing for a minute is stuck.
constexpr timespec kPollTime{0, 100'000'000};
constexpr int kMostEmptyPolls = 600;

/// Reads that are under way together: submitted, and waited for.
class Batch {
 public:
  Batch(const DirectSession& session, unsigned count)
      : cufile_(session.cufile), driver_(session.primary.driver) {
    check(driver_, cufile_.cuFileBatchIOSetUp(&handle_, count),
          fmt::format("cuFileBatchIOSetUp of {} reads", count));
  }
  ~Batch() {
    if (in_flight_ > 0) cufile_.cuFileBatchIOCancel(handle_);
    cufile_.cuFileBatchIODestroy(handle_);
  }
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  void submit(std::vector<CUfileIOParams_t>& reads) {
    in_flight_ = reads.size();  // Also when it fails: some may be under way.
    check(
        driver_,
        cufile_.cuFileBatchIOSubmit(handle_, static_cast<unsigned>(reads.size()), reads.data(), 0),
        fmt::format("cuFileBatchIOSubmit of {} reads", reads.size()));
  }

  template <typename Take>
  void wait(const Take& take) {
    std::vector<CUfileIOEvents_t> events(in_flight_);
    int empty_polls = 0;
    while (in_flight_ > 0) {
      auto count = static_cast<unsigned>(in_flight_);
      timespec timeout = kPollTime;
      check(driver_, cufile_.cuFileBatchIOGetStatus(handle_, 1, &count, events.data(), &timeout),
            fmt::format("cuFileBatchIOGetStatus of {} reads", in_flight_));
      empty_polls = count == 0 ? empty_polls + 1 : 0;
      if (empty_polls > kMostEmptyPolls) {
        throw Refusal(FEEDRACE_CUDA_IO,
                      fmt::format("cuFileBatchIOGetStatus: {} reads did not end within a minute; "
                                  "look into dmesg for errors of the drive",
                                  in_flight_));
      }
      const std::size_t come = std::min<std::size_t>(count, in_flight_);
      for (std::size_t i = 0; i < come; ++i) take(events[i]);
      in_flight_ -= come;
    }
  }

 private:
  const CuFile& cufile_;
  const Driver& driver_;
  CUfileBatchHandle_t handle_ = nullptr;
  std::size_t in_flight_ = 0;
};

Extent extent_of(const feedrace_cuda_direct_read& read) {
  return {read.base, read.bytes, read.file_offset, read.memory_offset};
}

CUfileIOParams_t params_of(feedrace_cuda_direct_read& read) {
  CUfileIOParams_t params{};
  params.mode = CUFILE_BATCH;
  params.u.batch.devPtr_base = reinterpret_cast<void*>(read.base);
  params.u.batch.file_offset = static_cast<off_t>(read.file_offset);
  params.u.batch.devPtr_offset = static_cast<off_t>(read.memory_offset);
  params.u.batch.size = read.bytes;
  params.fh = read.file->handle;
  params.opcode = CUFILE_READ;
  params.cookie = &read;
  return params;
}

/// What the event says came: bytes, or an error below 0 in an unsigned field.
ssize_t result_of(const CUfileIOEvents_t& event) {
  const auto came = static_cast<ssize_t>(event.ret);
  if (event.status == CUFILE_COMPLETE || came < 0) return came;
  return -CU_FILE_IO_ERROR;  // Cancelled, timed out or refused, without a number.
}

/// Keeps the first failure of a call, which has a text for one only.
class FirstFailure {
 public:
  template <typename Body>
  void run(feedrace_cuda_direct_read& read, const Body& body) {
    feedrace_cuda_error failure{};
    read.status = guarded(&failure, body);
    if (read.status != FEEDRACE_CUDA_OK && status_ == FEEDRACE_CUDA_OK) {
      status_ = read.status;
      text_ = failure.message;
    }
  }
  void rethrow() const {
    if (status_ != FEEDRACE_CUDA_OK) {
      throw Refusal(static_cast<feedrace_cuda_status>(status_), text_);
    }
  }

 private:
  int status_ = FEEDRACE_CUDA_OK;
  std::string text_;
};

void finish(feedrace_cuda_direct_read& read, ssize_t came) {
  if (came < 0) {
    throw read_refusal(read.file->session->primary.driver, came, EIO,
                       fmt::format("a read of a batch, {} bytes at {} of {},", read.bytes,
                                   read.file_offset, read.file->name));
  }
  read.bytes_read = finish_extent(*read.file, extent_of(read), static_cast<std::uint64_t>(came));
}

/// Reads that are under way at once; what came of each is in `came` by its place.
void run_batch(DirectSession& session, std::vector<CUfileIOParams_t>& params,
               feedrace_cuda_direct_read* first, std::vector<ssize_t>& came) {
  const auto together = session.lease->reads().together();
  Batch batch(session, static_cast<unsigned>(params.size()));
  batch.submit(params);
  batch.wait([&](const CUfileIOEvents_t& event) {
    const auto* read = static_cast<const feedrace_cuda_direct_read*>(event.cookie);
    came[static_cast<std::size_t>(read - first)] = result_of(event);
  });
}

void read_some(DirectSession& session, feedrace_cuda_direct_read* reads, std::size_t count,
               FirstFailure& failure) {
  std::vector<CUfileIOParams_t> params;
  for (std::size_t i = 0; i < count; ++i) {
    feedrace_cuda_direct_read& read = reads[i];
    read.bytes_read = 0;
    failure.run(read, [&] {
      if (read.file->session.get() != &session) {
        throw Refusal(FEEDRACE_CUDA_INVALID,
                      fmt::format("{} was opened by another reader; give each batch to the reader "
                                  "of its files",
                                  read.file->name));
      }
      check_extent(*read.file, extent_of(read));
      if (expected_bytes(*read.file, extent_of(read)) > 0) params.push_back(params_of(read));
    });
  }
  if (params.empty()) return;
  // Until it has come: what ends the call early leaves no read that seems to have succeeded.
  for (const CUfileIOParams_t& one : params) {
    static_cast<feedrace_cuda_direct_read*>(one.cookie)->status = FEEDRACE_CUDA_IO;
  }
  std::vector<ssize_t> came(count, 0);
  run_batch(session, params, reads, came);
  for (const CUfileIOParams_t& one : params) {
    auto& read = *static_cast<feedrace_cuda_direct_read*>(one.cookie);
    failure.run(read, [&] { finish(read, came[static_cast<std::size_t>(&read - reads)]); });
  }
}

int read_batch(feedrace_cuda_direct* direct, feedrace_cuda_direct_read* reads, std::uint32_t count,
               feedrace_cuda_error* error) {
  return guarded(error, [&] {
    DirectSession& session = *direct->session;
    const InSession in(session);
    const CuFile& cufile = session.cufile;
    if (cufile.cuFileBatchIOSetUp == nullptr || cufile.cuFileBatchIOSubmit == nullptr ||
        cufile.cuFileBatchIOGetStatus == nullptr || cufile.cuFileBatchIOCancel == nullptr ||
        cufile.cuFileBatchIODestroy == nullptr) {
      throw Refusal(FEEDRACE_CUDA_UNSUPPORTED,
                    cufile.library.path() +
                        " has no batches; use read, or install cuFile 1.15 or "
                        "newer");
    }
    // Those behind a batch that failed are not tried.
    for (std::uint32_t i = 0; i < count; ++i) reads[i].status = FEEDRACE_CUDA_IO;
    FirstFailure failure;
    for (std::size_t from = 0; from < count; from += kMostInFlight) {
      read_some(session, reads + from, std::min<std::size_t>(kMostInFlight, count - from), failure);
    }
    failure.rethrow();
  });
}

}  // namespace

void add_direct_batches(feedrace_cuda_plugin& table) { table.read_batch = read_batch; }

}  // namespace feedrace::cuda_plugin
