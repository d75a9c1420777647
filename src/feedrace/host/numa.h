// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "feedrace/error.h"

namespace feedrace::host {

/// Binds the calling thread to those of `cpus` that it may use already, so that a limit that
/// somebody else has set stays in force. False, and the affinity as it was, when none is left or
/// the kernel refuses.
bool bind_thread(std::span<const std::size_t> cpus) noexcept;

/// Asks the kernel to place `memory` on `node`; it takes other nodes when that one is full. Only
/// pages that nobody has touched yet are meant. `memory` begins at a page. Failure: kUnsupported,
/// with the reason (no such node, no NUMA in this kernel, forbidden in this container).
Result<void> prefer_node(std::span<std::byte> memory, int node);

/// NUMA nodes that are online, by sys/ under `root` (tests); 1 where there is no such thing.
std::size_t node_count(const std::string& root = "/");

}  // namespace feedrace::host
