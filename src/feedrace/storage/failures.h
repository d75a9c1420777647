// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "feedrace/error.h"

namespace feedrace::storage {

// The sentences of failed reads, the same for every back end. None throws: a read path that is out
// of memory gives the code with an empty message rather than no completion.

/// `call` ("openat") on `name` failed with `error_number`. kNotFound where the path is at fault.
Failure open_failure(std::string_view name, std::string_view call, int error_number) noexcept;

/// Reading `size_bytes` at `offset_bytes` failed in `call`. kCancelled for ECANCELED.
Failure read_failure(std::string_view name, std::uint64_t offset_bytes, std::size_t size_bytes,
                     std::string_view call, int error_number) noexcept;

/// "NAME: WHAT", for what is not an errno.
Failure named_failure(ErrorCode code, std::string_view name, std::string_view what) noexcept;

}  // namespace feedrace::storage
