// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "feedrace/doctor/finding.h"
#include "feedrace/host/block_device.h"
#include "feedrace/host/mounts.h"

// The examinations that `examine` consists of, each in a file of its own: check_cores.cc,
// check_memory.cc, check_kernel.cc, check_storage.cc, check_gpu.cc.
namespace feedrace::doctor {

/// What all examinations know.
struct Place {
  std::filesystem::path root;
  bool is_live = true;  ///< `root` is this machine: system calls tell about it too.

  std::filesystem::path operator/(const char* path) const { return root / path; }
};

/// Where a path of the user's lies.
struct Storage {
  std::string path;
  host::Mount mount;         ///< Empty type: unknown.
  host::BlockDevice device;  ///< Empty name: none, or unknown.
};

inline Finding make_finding(std::string item, std::string subject, Weight weight) {
  Finding finding;
  finding.item = std::move(item);
  finding.subject = std::move(subject);
  finding.weight = weight;
  return finding;
}

/// Sets what was found, and `kUnknown` where that is empty.
inline void set_found(Finding& finding, Grade grade, std::string found,
                      const char* why_unknown = "can't be read") {
  finding.grade = found.empty() ? Grade::kUnknown : grade;
  finding.found = found.empty() ? why_unknown : std::move(found);
  if (finding.grade == Grade::kGood || finding.grade == Grade::kUnknown) finding.fix.clear();
}

void check_cores(const Place& place, Findings& findings);
void check_memory(const Place& place, Findings& findings);
void check_kernel(const Place& place, Findings& findings);
void check_storage(const Place& place, const std::vector<Storage>& storages, Findings& findings);
void check_gpu(const Place& place, const std::vector<Storage>& storages, Findings& findings);

/// The physical disks below all storages, sorted, each once.
std::vector<std::string> disks_of(const std::vector<Storage>& storages);

}  // namespace feedrace::doctor
