// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <exception>
#include <functional>
#include <mutex>
#include <stop_token>
#include <utility>
#include <vector>

namespace feedrace::pipeline {

/// Where the threads of one run meet when something ends it: the first reason wins, every wait is
/// released, and the consumer rethrows. Thread-safe.
class Shutdown {
 public:
  /// Registers how to release waits that do not look at `token()`. Call before any thread starts;
  /// the callback must not call back.
  void on_cancel(std::function<void()> callback) { callbacks_.push_back(std::move(callback)); }

  /// Ends the run without an error: the consumer simply wants no more.
  void cancel() noexcept { fail(nullptr); }

  /// Records `error` if it is the first reason, then releases all waits. From any thread, any
  /// number of times.
  void fail(std::exception_ptr error) noexcept {
    {
      std::lock_guard lock(mutex_);
      if (cancelled_) return;
      cancelled_ = true;
      error_ = std::move(error);
    }
    stop_.request_stop();
    for (const auto& callback : callbacks_) callback();
  }

  std::stop_token token() const noexcept { return stop_.get_token(); }

  /// Throws the recorded error, if there is one.
  void rethrow_if_failed() const {
    std::lock_guard lock(mutex_);
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::stop_source stop_;
  mutable std::mutex mutex_;
  bool cancelled_ = false;                        // Guarded by mutex_.
  std::exception_ptr error_;                      // Guarded by mutex_.
  std::vector<std::function<void()>> callbacks_;  // Fixed before any thread starts.
};

}  // namespace feedrace::pipeline
