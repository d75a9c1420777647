// SPDX-License-Identifier: Apache-2.0
#include "feedrace/ops/kernels.h"

namespace feedrace::ops {

const std::vector<const Kernels*>& available_kernels() {
  static const std::vector<const Kernels*> kAvailable = [] {
    std::vector<const Kernels*> sets = {&scalar_kernels()};
    for (const Kernels* set : highway_kernels()) sets.push_back(set);
    if (const Kernels* set = vnni_kernels()) sets.push_back(set);
    return sets;
  }();
  return kAvailable;
}

const Kernels& best_kernels() { return *available_kernels().back(); }

}  // namespace feedrace::ops
