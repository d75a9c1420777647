// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "feedrace/doctor/finding.h"

namespace feedrace::doctor {

/// Which way cuFile's reads take.
enum class GdsPath {
  kDirect,   ///< From the drive into the GPU's memory.
  kCompat,   ///< Through host memory, though every call succeeds.
  kRefused,  ///< Calls fail: neither way is open.
};
const char* to_string(GdsPath path) noexcept;  ///< "direct", "compat", "refused".

/// What `gdscheck -p`, which comes with cuFile, says of a machine.
struct GdsCheck {
  std::string nvidia_fs;  ///< Version of the module; empty: not loaded.
  bool has_nvme = false;  ///< cuFile may read from NVMe drives into a GPU.
  GdsPath path = GdsPath::kDirect;
  std::string because;  ///< "force_compat_mode", "NVMe is unsupported"; empty for kDirect.
};

/// Nothing where the text is another's.
std::optional<GdsCheck> parse_gds_check(const std::string& text);

Finding finding_of(const GdsCheck& check);

}  // namespace feedrace::doctor
