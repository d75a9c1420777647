// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include "feedrace/cuda/plugin/handles.h"

namespace feedrace::cuda_plugin {
namespace {

/// Runs one call of the driver with the device's context.
template <typename Call>
int driver_call(feedrace_cuda_device* device, feedrace_cuda_error* error, const char* what,
                const Call& call) {
  return guarded(error, [&] {
    const Current current(*device);
    check(device->driver, call(device->driver), fmt::format("{} on {}", what, device->name));
  });
}

int create_stream(feedrace_cuda_device* device, feedrace_cuda_stream* stream,
                  feedrace_cuda_error* error) {
  CUstream made = nullptr;
  const int status = driver_call(device, error, "cuStreamCreate", [&](const Driver& driver) {
    // Not the default stream's: that one would make every other stream wait.
    return driver.cuStreamCreateWithPriority(&made, CU_STREAM_NON_BLOCKING, 0);
  });
  if (status == FEEDRACE_CUDA_OK) *stream = reinterpret_cast<feedrace_cuda_stream>(made);
  return status;
}

void destroy_stream(feedrace_cuda_device* device, feedrace_cuda_stream stream) {
  driver_call(device, nullptr, "cuStreamDestroy", [&](const Driver& driver) {
    driver.cuStreamSynchronize(stream_of(stream));
    return driver.cuStreamDestroy(stream_of(stream));
  });
}

int create_event(feedrace_cuda_device* device, std::uint32_t with_time, feedrace_cuda_event* event,
                 feedrace_cuda_error* error) {
  CUevent made = nullptr;
  const int status = driver_call(device, error, "cuEventCreate", [&](const Driver& driver) {
    return driver.cuEventCreate(&made, with_time != 0 ? CU_EVENT_DEFAULT : CU_EVENT_DISABLE_TIMING);
  });
  if (status == FEEDRACE_CUDA_OK) *event = reinterpret_cast<feedrace_cuda_event>(made);
  return status;
}

void destroy_event(feedrace_cuda_device* device, feedrace_cuda_event event) {
  driver_call(device, nullptr, "cuEventDestroy",
              [&](const Driver& driver) { return driver.cuEventDestroy(event_of(event)); });
}

int record(feedrace_cuda_device* device, feedrace_cuda_event event, feedrace_cuda_stream stream,
           feedrace_cuda_error* error) {
  return driver_call(device, error, "cuEventRecord", [&](const Driver& driver) {
    return driver.cuEventRecord(event_of(event), stream_of(stream));
  });
}

int make_stream_wait(feedrace_cuda_device* device, feedrace_cuda_stream stream,
                     feedrace_cuda_event event, feedrace_cuda_error* error) {
  return driver_call(device, error, "cuStreamWaitEvent", [&](const Driver& driver) {
    return driver.cuStreamWaitEvent(stream_of(stream), event_of(event), 0);
  });
}

int is_done(feedrace_cuda_device* device, feedrace_cuda_event event, std::uint32_t* done,
            feedrace_cuda_error* error) {
  return driver_call(device, error, "cuEventQuery", [&](const Driver& driver) {
    const CUresult result = driver.cuEventQuery(event_of(event));
    *done = result == CUDA_SUCCESS ? 1 : 0;
    return result == CUDA_ERROR_NOT_READY ? CUDA_SUCCESS : result;
  });
}

int wait(feedrace_cuda_device* device, feedrace_cuda_event event, feedrace_cuda_error* error) {
  return driver_call(device, error, "cuEventSynchronize", [&](const Driver& driver) {
    return driver.cuEventSynchronize(event_of(event));
  });
}

int elapsed_ms(feedrace_cuda_device* device, feedrace_cuda_event begin, feedrace_cuda_event end,
               float* milliseconds, feedrace_cuda_error* error) {
  return driver_call(device, error, "cuEventElapsedTime", [&](const Driver& driver) {
    return driver.cuEventElapsedTime(milliseconds, event_of(begin), event_of(end));
  });
}

int copy_to_device(feedrace_cuda_device* device, std::uint64_t destination, const void* source,
                   std::size_t bytes, feedrace_cuda_stream stream, feedrace_cuda_error* error) {
  if (bytes == 0) return FEEDRACE_CUDA_OK;
  return driver_call(device, error, "a copy to the device", [&](const Driver& driver) {
    return driver.cuMemcpyHtoDAsync(destination, source, bytes, stream_of(stream));
  });
}

int copy_to_host(feedrace_cuda_device* device, void* destination, std::uint64_t source,
                 std::size_t bytes, feedrace_cuda_stream stream, feedrace_cuda_error* error) {
  if (bytes == 0) return FEEDRACE_CUDA_OK;
  return driver_call(device, error, "a copy to the host", [&](const Driver& driver) {
    return driver.cuMemcpyDtoHAsync(destination, source, bytes, stream_of(stream));
  });
}

int copy_on_device(feedrace_cuda_device* device, std::uint64_t destination, std::uint64_t source,
                   std::size_t bytes, feedrace_cuda_stream stream, feedrace_cuda_error* error) {
  if (bytes == 0) return FEEDRACE_CUDA_OK;
  return driver_call(device, error, "a copy on the device", [&](const Driver& driver) {
    return driver.cuMemcpyDtoDAsync(destination, source, bytes, stream_of(stream));
  });
}

}  // namespace

void add_streams(feedrace_cuda_plugin& table) {
  table.create_stream = create_stream;
  table.destroy_stream = destroy_stream;
  table.create_event = create_event;
  table.destroy_event = destroy_event;
  table.record = record;
  table.make_stream_wait = make_stream_wait;
  table.is_done = is_done;
  table.wait = wait;
  table.elapsed_ms = elapsed_ms;
  table.copy_to_device = copy_to_device;
  table.copy_to_host = copy_to_host;
  table.copy_on_device = copy_on_device;
}

}  // namespace feedrace::cuda_plugin
