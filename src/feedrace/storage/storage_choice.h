// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "feedrace/host/block_device.h"
#include "feedrace/host/file_system.h"
#include "feedrace/storage/backends.h"

namespace feedrace::storage {

/// What is to be read, and what the user has fixed.
struct StorageNeeds {
  std::string backend = "auto";  ///< "auto", or one of `backend_names()`.
  PageCache page_cache = PageCache::kAuto;
  std::size_t queue_depth = 32;
  std::optional<bool> sqpoll;  ///< Not set: where at least `kSqpollSpareCores` are to spare.
  bool iopoll = false;
  bool strict = false;             ///< See `AccessOptions`.
  std::vector<std::string> files;  ///< All shards, or some of the files of a folder, evenly chosen.
  std::uint64_t file_count = 0;    ///< Of the data; more than `files` has where those are some.
  bool are_shards = false;         ///< Then each device gets a back end of its own.
  std::size_t spare_cores = 0;     ///< That neither decode nor the reader needs.
  std::shared_ptr<FallbackLog> log;
};
inline constexpr std::size_t kSqpollSpareCores = 8;

/// How the files of one device are read.
struct DeviceChoice {
  host::FileSystem file_system;
  host::BlockDevice device;
  Engine engine = Engine::kThreads;
  BackendOptions options;
  std::string reason;  ///< One clause.

  /// Throws Error kIo when no thread starts; what `choose_storage` has tried is there.
  std::unique_ptr<Backend> make() const;
};

struct StorageChoice {
  std::string name;                   ///< "uring", "direct", "buffered".
  std::string reason;                 ///< One line for the plan.
  bool is_fallback = false;           ///< Not what was wanted; `reason` says why and what to do.
  std::string shortfall;              ///< That part of `reason` alone.
  std::vector<DeviceChoice> devices;  ///< At least one.
  std::vector<std::uint32_t> device_of_file;  ///< In `devices`, for each of `needs.files`.
};

/// "uring" (io_uring), "direct" (O_DIRECT on threads), "buffered" (the page cache on threads).
std::vector<std::string_view> backend_names();

/// What the machine says when it is asked; tests give their own.
struct StorageProbe {
  std::string root = "/";
  std::optional<std::size_t> available_memory_bytes;  ///< Not set: as the kernel says.
};

/// Asks each file system once, and decides. Reads a block or two of one file a device, and sizes
/// and cached pages of a few dozen files. Throws Error kInvalidArgument: an unknown name, a queue
/// depth out of range, "direct" with `PageCache::kKeep`.
StorageChoice choose_storage(const StorageNeeds& needs, const StorageProbe& probe = {});

}  // namespace feedrace::storage
