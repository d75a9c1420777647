// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "feedrace/error.h"

namespace feedrace::diagnose {

/// How a child process ended.
struct ChildEnd {
  int status = 0;          ///< Its exit code, or 128 and the signal.
  std::string output;      ///< Standard output.
  std::string errors;      ///< Standard error.
  double cpu_seconds = 0;  ///< User and system, from start to end.
};

/// Where `name` lies in the folders of PATH; empty when nowhere.
std::string find_program(const std::string& name);

/// Runs a program without standard input and waits for its end; `environment` ("NAME=value") adds
/// to what is inherited, or replaces it. It gets SIGTERM when the calling thread ends before it.
/// Failure: kIo when no process can be made; a program that can't be run ends with 127.
Result<ChildEnd> run_child(const std::string& program, const std::vector<std::string>& arguments,
                           const std::vector<std::string>& environment = {});

}  // namespace feedrace::diagnose
