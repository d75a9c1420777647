// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "feedrace/diagnose/io_job.h"
#include "feedrace/diagnose/io_paths.h"
#include "feedrace/error.h"

namespace feedrace::diagnose {

/// A run of fio, by its own figures of its job: they leave out its start and its end.
struct FioRun {
  double gigabytes = 0;  ///< Read.
  double gb_per_second = 0;
  double cpu_seconds_per_gb = 0;
};

/// fio, the yardstick of storage benchmarks, as it is installed here.
class Fio {
 public:
  /// Failure: kUnsupported when there is none.
  static Result<Fio> find();

  const std::string& version() const noexcept { return version_; }  ///< "fio-3.33".

  /// The arguments of the job that is like `job` read by `path`. Failure: kUnsupported when fio has
  /// no such path, or the job has several files, which fio would cut otherwise.
  Result<std::vector<std::string>> arguments(const IoPath& path, const IoJob& job,
                                             bool is_cold) const;

  /// Runs it to its end; the child goes when the calling thread goes. Where threads of the kernel
  /// read for it, which fio does not count, its CPU is that of the process less that of a job of a
  /// millisecond. Failures: kUnsupported with fio's own words, kIo when it can't be started.
  Result<FioRun> run(const IoPath& path, const IoJob& job, bool is_cold) const;

 private:
  struct Job {
    FioRun run;
    double process_cpu_seconds = 0;
  };

  Fio(std::string program, std::string version)
      : program_(std::move(program)), version_(std::move(version)) {}

  Result<Job> run_job(const IoPath& path, const IoJob& job, bool is_cold) const;

  std::string program_;
  std::string version_;
};

/// What a run with --output-format=json and --group_reporting printed. Failure: kUnsupported with
/// the reason, also when its job failed.
Result<FioRun> parse_fio(const std::string& output);

}  // namespace feedrace::diagnose
