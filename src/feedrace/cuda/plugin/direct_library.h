// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cufile.h>

#include <string>
#include <vector>

#include "feedrace/cuda/plugin/library.h"

namespace feedrace::cuda_plugin {

// Without these nothing can be read. cufile.h turns a name into that of its newest version, which
// is also the name of the symbol.
#define FEEDRACE_CUFILE_CALLS(CALL) \
  CALL(cuFileGetVersion)            \
  CALL(cuFileDriverOpen)            \
  CALL(cuFileDriverClose)           \
  CALL(cuFileDriverGetProperties)   \
  CALL(cuFileHandleRegister)        \
  CALL(cuFileHandleDeregister)      \
  CALL(cuFileBufRegister)           \
  CALL(cuFileBufDeregister)         \
  CALL(cuFileRead)

// These may be null: older libraries lack them, and reads go on without.
#define FEEDRACE_CUFILE_OPTIONAL_CALLS(CALL) \
  CALL(cuFileSetParameterSizeT)              \
  CALL(cuFileSetParameterBool)               \
  CALL(cuFileGetParameterSizeT)              \
  CALL(cuFileGetParameterBool)               \
  CALL(cuFileSetStatsLevel)                  \
  CALL(cuFileStatsStart)                     \
  CALL(cuFileStatsStop)                      \
  CALL(cuFileGetStatsL3)                     \
  CALL(cuFileBatchIOSetUp)                   \
  CALL(cuFileBatchIOSubmit)                  \
  CALL(cuFileBatchIOGetStatus)               \
  CALL(cuFileBatchIOCancel)                  \
  CALL(cuFileBatchIODestroy)                 \
  CALL(cuFileReadAsync)

/// libcufile.so.0, opened by name. Opening it, and asking its version, starts nothing.
struct CuFile {
  explicit CuFile(const std::vector<std::string>& folders);

  Library library;
  /// Empty when it can be used; else why not and what to do.
  std::string missing;
  std::string remedy;
  int version = 0;  ///< 1150 is 1.15.

#define FEEDRACE_CUFILE_MEMBER(name) decltype(&::name) name = nullptr;
  FEEDRACE_CUFILE_CALLS(FEEDRACE_CUFILE_MEMBER)
  FEEDRACE_CUFILE_OPTIONAL_CALLS(FEEDRACE_CUFILE_MEMBER)
#undef FEEDRACE_CUFILE_MEMBER
};

/// "1.15" of 1150; "unknown" of 0.
std::string version_text(int version);

}  // namespace feedrace::cuda_plugin
