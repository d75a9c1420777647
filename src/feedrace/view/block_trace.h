// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include <nlohmann/json.hpp>

#include "feedrace/error.h"
#include "feedrace/host/file_descriptor.h"
#include "feedrace/view/block_events.h"

namespace feedrace::view {

/// Latencies of all reads of block devices while it lives, by the kernel's trace events
/// block_rq_issue and block_rq_complete: what biolatency shows. In a trace instance of its own, so
/// that nobody's tracing is disturbed; the destructor removes it, and one that a killed process
/// left is removed by the next. Not thread-safe.
class BlockTrace {
 public:
  /// `root` is where sys is. Failure: kUnsupported with the reason and the remedy: tracefs is not
  /// mounted, this user may not trace, the kernel has no such events.
  static Result<std::unique_ptr<BlockTrace>> begin(const std::string& root = "/");
  ~BlockTrace();
  BlockTrace(const BlockTrace&) = delete;
  BlockTrace& operator=(const BlockTrace&) = delete;

  /// Takes what the kernel has gathered, which is room for some thousand reads a core: call it
  /// several times a second.
  void collect();
  /// What came since it was asked last: "devices": {"nvme0n1": latencies as `watch::to_json` has
  /// them}, "lost_events".
  nlohmann::ordered_json take();

 private:
  BlockTrace(std::string root, std::string folder)
      : root_(std::move(root)), folder_(std::move(folder)) {}

  std::string device_name(const std::string& number) const;

  const std::string root_;
  const std::string folder_;  // Of the instance.
  host::FileDescriptor pipe_;
  std::string rest_;  // Of a line that has not come to its end.
  BlockEvents events_;
};

}  // namespace feedrace::view
