// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace feedrace::tools {

/// What a benchmark's figures depend on; "unknown" where it can't be seen.
struct Machine {
  std::string cpu;
  std::string kernel;
  std::string file_system;  ///< Of the data.
};
Machine describe_machine(const std::string& data_path);

/// CPU seconds of this process, user and system, all threads.
double process_cpu_seconds();
/// The largest resident set of this process so far, in bytes.
std::size_t peak_resident_bytes();
/// Seconds since the kernel started this process, to 10 ms (the kernel's clock tick).
double seconds_since_process_start();

}  // namespace feedrace::tools
