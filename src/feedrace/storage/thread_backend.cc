// SPDX-License-Identifier: Apache-2.0
#include "feedrace/storage/thread_backend.h"

#include <cerrno>
#include <utility>

#include "feedrace/core/buffer_pool.h"
#include "feedrace/storage/failures.h"
#include "feedrace/storage/posix_file.h"

namespace feedrace::storage {

ThreadBackend::ThreadBackend(std::size_t queue_depth, std::size_t thread_count,
                             AccessOptions access)
    : table_(std::move(access)),
      threads_("buffered", queue_depth, thread_count,
               [this](const ReadRequest& request, const StopSign& stop) {
                 return read(request, stop);
               }) {}

Completion ThreadBackend::read(const ReadRequest& request, const StopSign& stop) noexcept {
  Completion done{request.user_data, std::size_t{0}, Path::kPageCache, 0};
  const Result<Target> target = target_of(request);
  if (!target) {
    done.bytes_read = target.error();
    return done;
  }
  OpenFile own;
  if (target->file == nullptr) {
    own = open_whole(request.path, request.destination, table_);
    if (!own.cached && !own.direct) {
      done.bytes_read = open_failure(target->name, "openat", errno);
      return done;
    }
  }
  const OpenFile& open = target->file == nullptr ? own : target->file->open();
  const RangeRead got =
      read_range(open, target->name, request.offset_bytes, request.destination, stop);
  // Opening and closing a whole file are two more.
  system_calls_ += got.call_count + (target->file == nullptr ? 2 : 0);
  done.path = got.path;
  done.bytes_read = got.bytes;
  if (got.refused) {
    done.bytes_read = *got.refused;
  } else if (got.error_number != 0) {
    done.bytes_read = read_failure(target->name, request.offset_bytes, request.destination.size(),
                                   "preadv2", got.error_number);
  }
  return done;
}

Backend::Limits ThreadBackend::limits() const noexcept {
  return {whole_file_alignment(table_.wanted()), threads_.queue_depth()};
}

Result<void> ThreadBackend::register_memory(std::span<std::byte> memory) {
  // Each call names its memory, so there is nothing to pin; but direct reads want it touched.
  if (table_.wanted() == Access::kDirect) populate(memory);
  return {};
}

Result<std::unique_ptr<File>> ThreadBackend::open(std::string_view uri) {
  auto opened = open_posix(uri, table_);
  if (!opened) return opened.error();
  return std::unique_ptr<File>(*std::move(opened));
}

}  // namespace feedrace::storage
