// SPDX-License-Identifier: Apache-2.0
#pragma once

// How tests steer the stub libraries: libcuda.so.1, libnvidia-ml.so.1, libnvjpeg.so.13 and
// libcufile.so.0 that work in the host's memory. The functions are exported by the stub of libcuda,
// which the other stubs link: tests link it too, and the plug-in finds the same one by its folder.

#include <cstddef>
#include <cstdint>

extern "C" {

/// Forgets all failures and settings; makes one device of 1 GiB. Call it when nothing is in flight.
/// The settings that a process starts with come from the environment, so that whole programs can
/// run on the stubs: FEEDRACE_STUB_DEVICES=2, FEEDRACE_STUB_MEMORY=BYTES,
/// FEEDRACE_STUB_DELAY_US=50, FEEDRACE_STUB_DRIVER=12040, FEEDRACE_STUB_FAIL="cuMemAlloc_v2:3:2
/// cuFileRead:1:5027", FEEDRACE_STUB_BLOCK_THREADS=6 (threads of a block in the host build of a
/// kernel, even, 2 to 16).
void feedrace_stub_reset();
void feedrace_stub_set_devices(int count);
/// Device memory of each device.
void feedrace_stub_set_memory(std::size_t bytes);
/// What is put on a stream begins so much later: whoever forgets to wait reads old bytes.
void feedrace_stub_set_delay_us(int microseconds);
void feedrace_stub_set_driver_version(int version);
/// Compute capability; 9.0 unless set.
void feedrace_stub_set_compute(int major, int minor);
/// The NUMA node of the host that is nearest; -1 unless set.
void feedrace_stub_set_host_node(int node);
/// The `nth` call from now on (1 is the next) of this name (that of the symbol, "cuMemAlloc_v2")
/// gives `code`, and has no effect. With nth 0 every call.
void feedrace_stub_fail(const char* call, int nth, int code);
/// The code that this call has to fail with, or 0; for the stubs themselves, once a call.
int feedrace_stub_failure(const char* call);
/// Calls of this name since the reset.
std::uint64_t feedrace_stub_calls(const char* call);

/// Device memory in use, and pinned ranges, of all devices: 0 when all was given back.
std::size_t feedrace_stub_memory_in_use();
std::size_t feedrace_stub_pinned_bytes();
/// Streams, events and modules that live.
std::size_t feedrace_stub_objects();
/// Whether [address, + bytes) is memory of a device.
int feedrace_stub_is_device_memory(const void* address, std::size_t bytes);

/// A kernel of ours in its host build: called with what cuLaunchKernel got.
using feedrace_stub_kernel = void (*)(const unsigned grid[3], const unsigned block[3],
                                      void** arguments);
/// Kernels of ours take one argument, a struct of so many bytes, of at most 512: a launch copies
/// it.
void feedrace_stub_add_kernel(const char* name, feedrace_stub_kernel kernel,
                              std::size_t argument_bytes);
}
