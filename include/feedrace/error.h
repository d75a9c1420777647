// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <variant>

namespace feedrace {

/// What the caller can do about an error. One entry per different reaction.
enum class ErrorCode {
  kInvalidArgument,  ///< Fix the call or the configuration.
  kNotFound,         ///< Fix the path.
  kIo,               ///< Retry, or look at the device, the permission, the disk.
  kCorruptData,      ///< Skip the sample, or repair the data set.
  kUnsupported,      ///< This machine or build lacks a feature; choose another way.
  kCancelled,        ///< The loader is shutting down; nothing is wrong.
};

/// As Python, JSON and the logs spell it: "corrupt_data".
const char* to_string(ErrorCode code) noexcept;

/// Thrown by set-up code and by `Loader::next()`. The message is one line: "<where>: <what was
/// found>; <what to do>".
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ErrorCode code() const noexcept { return code_; }

 private:
  ErrorCode code_;
};

/// A failure that belongs to one sample or one read. It travels as a value, never as a throw.
struct Failure {
  ErrorCode code = ErrorCode::kIo;
  std::string message;
};

/// Turns a value's failure into a throw, for callers at the edge.
[[noreturn]] void raise(const Failure& failure);

/// A value or the reason there is none. The members are a subset of `std::expected`, so this
/// becomes an alias of it on the day the project builds as C++23.
template <typename T>
class [[nodiscard]] Result {
 public:
  // NOLINTBEGIN(google-explicit-constructor): a function returns either as it is.
  Result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
  Result(Failure failure) : state_(std::in_place_index<1>, std::move(failure)) {}
  // NOLINTEND(google-explicit-constructor)

  explicit operator bool() const noexcept { return state_.index() == 0; }
  T& operator*() & { return std::get<0>(state_); }
  const T& operator*() const& { return std::get<0>(state_); }
  T&& operator*() && { return std::get<0>(std::move(state_)); }
  T* operator->() { return &std::get<0>(state_); }
  const T* operator->() const { return &std::get<0>(state_); }
  const Failure& error() const { return std::get<1>(state_); }

 private:
  std::variant<T, Failure> state_;
};

template <>
class [[nodiscard]] Result<void> {
 public:
  Result() = default;
  Result(Failure failure) : failure_(std::move(failure)) {}  // NOLINT(google-explicit-constructor)

  explicit operator bool() const noexcept { return !failure_; }
  const Failure& error() const { return *failure_; }  // NOLINT(bugprone-unchecked-optional-access)

 private:
  std::optional<Failure> failure_;
};

}  // namespace feedrace
