// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/direct_library.h"

#include <dlfcn.h>

#include <fmt/format.h>

namespace feedrace::cuda_plugin {
namespace {

// Twice, so that cufile.h's names are those of the symbols.
#define FEEDRACE_TEXT_OF(name) #name
#define FEEDRACE_SYMBOL_OF(name) FEEDRACE_TEXT_OF(name)

constexpr char kSoname[] = "libcufile.so.0";
constexpr char kInstall[] =
    "pip install nvidia-cufile, and name its folder (site-packages/nvidia/cu13/lib) by "
    "--cuda-libraries or LD_LIBRARY_PATH";

template <typename Call>
bool find(const Library& library, const char* name, Call& call) {
  call = reinterpret_cast<Call>(library.symbol(name));
  return call != nullptr;
}

/// The arm64 wheel uses librt's shm_open without naming librt; on glibc before 2.34 it can only be
/// opened once librt's symbols are there for all.
Library open_cufile(const std::vector<std::string>& folders) {
  Library library(kSoname, folders);
  if (library || library.failure().find("undefined symbol: shm_") == std::string::npos) {
    return library;
  }
  if (dlopen("librt.so.1", RTLD_NOW | RTLD_GLOBAL) == nullptr) return library;
  return Library(kSoname, folders);
}

}  // namespace

CuFile::CuFile(const std::vector<std::string>& folders) : library(open_cufile(folders)) {
  if (!library) {
    missing = fmt::format("{} is not there: {}", kSoname, library.failure());
    remedy = kInstall;
    return;
  }
  std::string lacking;
#define FEEDRACE_FIND(name)                                                           \
  if (!find(library, FEEDRACE_SYMBOL_OF(name), this->name)) {                         \
    lacking += (lacking.empty() ? "" : ", ") + std::string(FEEDRACE_SYMBOL_OF(name)); \
  }
  FEEDRACE_CUFILE_CALLS(FEEDRACE_FIND)
#undef FEEDRACE_FIND
#define FEEDRACE_FIND(name) find(library, FEEDRACE_SYMBOL_OF(name), this->name);
  FEEDRACE_CUFILE_OPTIONAL_CALLS(FEEDRACE_FIND)
#undef FEEDRACE_FIND
  if (!lacking.empty()) {
    missing = fmt::format("{} lacks {}", library.path(), lacking);
    remedy = "install cuFile 1.15 (CUDA 13.0) or newer";
    return;
  }
  if (cuFileGetVersion(&version).err != CU_FILE_SUCCESS) version = 0;
}

std::string version_text(int version) {
  if (version <= 0) return "unknown";
  return fmt::format("{}.{}", version / 1000, version % 1000 / 10);
}

}  // namespace feedrace::cuda_plugin
