/* SPDX-License-Identifier: Apache-2.0 */
#pragma once

/* The only header that the library and libfeedrace_cuda.so share. Plain C: no C++ type, no
   exception and no CUDA header crosses it, so the two may be built by different compilers.

   Nothing here is process-wide but what the driver itself makes so (contexts, the libraries that
   were opened). Every call may be made from any thread; calls on one stream, decoder or file must
   not overlap. Handles are closed in any order but for what the text of a call says. */

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of the table. It grows at its end only; anything else is a new version. */
#define FEEDRACE_CUDA_ABI_VERSION 1

/* What a call that failed returns; 0 is success. One value for each reaction of the caller. */
enum feedrace_cuda_status {
  FEEDRACE_CUDA_OK = 0,
  FEEDRACE_CUDA_UNSUPPORTED = 1, /* A library, device or feature is not there. */
  FEEDRACE_CUDA_NO_MEMORY = 2,   /* Of the device, or pinned. */
  FEEDRACE_CUDA_LOST = 3,        /* The device is of no use to this process any more. */
  FEEDRACE_CUDA_IO = 4,          /* A read failed or came short. */
  FEEDRACE_CUDA_BAD_DATA = 5,    /* The bytes are no picture that the decoder takes. */
  FEEDRACE_CUDA_INVALID = 6      /* The caller's mistake. */
};

/* Filled by a call that failed: one line, ended by a 0 byte: what was called, what came, what to
   do. */
struct feedrace_cuda_error {
  char message[1024];
};

struct feedrace_cuda_options {
  /* Folders, separated by ':', in which the libraries of NVIDIA are looked for before the loader's
     own places; may be null. */
  const char* library_folders;
};

typedef struct feedrace_cuda_runtime feedrace_cuda_runtime; /* The libraries, opened. */
typedef struct feedrace_cuda_device feedrace_cuda_device;   /* One device's primary context. */
typedef struct feedrace_cuda_decoder feedrace_cuda_decoder; /* nvJPEG on one device. */
typedef struct feedrace_cuda_direct feedrace_cuda_direct;   /* cuFile on one device. */
typedef struct feedrace_cuda_file feedrace_cuda_file;       /* A file that cuFile knows. */
typedef struct feedrace_cuda_pending_read feedrace_cuda_pending_read; /* Of read_async. */

/* Handles of the driver itself, as numbers: a stream of torch or any other program serves as well
   as one of ours. 0 is the default stream. */
typedef uint64_t feedrace_cuda_stream;
typedef uint64_t feedrace_cuda_event;

/* 8-bit picture in device memory: rows of width_px RGB pixels, row_bytes apart. */
struct feedrace_cuda_picture {
  uint64_t address;
  int64_t row_bytes;
  uint32_t width_px;
  uint32_t height_px;
};

/* A box of the picture, resized (antialiased, triangle filter, as ops/resample.h does it) to
   full_width_px x full_height_px, of which the window at (window_x_px, window_y_px) is kept; its
   size is the output's. Outside of the resized picture the window is 0. Mirrored last. */
struct feedrace_cuda_geometry {
  uint32_t box_x_px, box_y_px, box_width_px, box_height_px;
  uint64_t full_width_px, full_height_px;
  int64_t window_x_px, window_y_px;
  uint8_t mirror_x; /* Left to right. */
  uint8_t mirror_y; /* Top to bottom. */
  uint8_t reserved[6];
};

enum feedrace_cuda_dtype {
  FEEDRACE_CUDA_UINT8 = 0,
  FEEDRACE_CUDA_FLOAT16 = 1,
  FEEDRACE_CUDA_FLOAT32 = 2
};

/* Of a fused pass: count images of one size, one behind the other. */
struct feedrace_cuda_output {
  uint64_t address;
  uint32_t width_px, height_px;
  uint32_t dtype;  /* enum feedrace_cuda_dtype; uint8 is stored as it is, without mean and std. */
  uint32_t is_hwc; /* 1: [N, H, W, 3]; 0: [N, 3, H, W]. */
  float mean[3];   /* On the scale of 0 to 1. */
  float std[3];    /* Value stored: (level / 255 - mean) / std, rounded to dtype. */
};

enum feedrace_cuda_engine {
  FEEDRACE_CUDA_ENGINE_NONE = 0, /* Not decoded: see the status. */
  FEEDRACE_CUDA_ENGINE_HARDWARE = 1,
  FEEDRACE_CUDA_ENGINE_SOFTWARE = 2
};

struct feedrace_cuda_decoder_options {
  double hardware_share; /* [0, 1] of a batch for the hardware engine; 0.65 unless set. */
  uint32_t
      bitstream_on_device; /* 1: encoded bytes lie in device memory (the *_DEVICE back ends). */
  uint32_t max_batch;      /* Pictures a call, at most. */
  /* Of pictures that are decoded many at a time, as the hardware engine does; larger ones are
     decoded by the software, one by one. */
  uint32_t max_width_px, max_height_px;
};

/* One picture of a decode call. */
struct feedrace_cuda_jpeg {
  const void* bytes;     /* On the host; parsed there in any case. */
  uint64_t device_bytes; /* The same on the device; 0 unless bitstream_on_device. */
  size_t size_bytes;
  struct feedrace_cuda_picture output; /* Where the pixels go: of the size that the region has. */
  uint32_t region_x_px, region_y_px;   /* Left top corner of what is wanted. */
  int32_t status;                      /* Out: enum feedrace_cuda_status. */
  int32_t engine;                      /* Out: enum feedrace_cuda_engine. */
};

struct feedrace_cuda_direct_options {
  uint32_t allow_compatible; /* 0: cuFile's copying through the host is an error. */
  uint32_t thread_count;     /* Of cuFile's own. 0: its default. */
  uint64_t max_direct_bytes; /* A request's; 0: its default. */
  uint64_t max_pinned_bytes; /* 0: its default. */
  uint32_t use_p2pdma;       /* 1: the kernel's PCI P2PDMA, without nvidia-fs; 0: its default. */
  uint32_t reserved;
  /* Goes before /proc, /run and /dev where the system is looked at before cuFile starts; null, but
     in tests. */
  const char* system_root;
};

enum feedrace_cuda_path {
  FEEDRACE_CUDA_PATH_UNKNOWN = 0,   /* Nothing showed it. */
  FEEDRACE_CUDA_PATH_DIRECT = 1,    /* From the drive to the device. */
  FEEDRACE_CUDA_PATH_COMPATIBLE = 2 /* Through the host's memory. */
};

/* Bytes by path, since the device was opened for direct reads. */
struct feedrace_cuda_direct_counts {
  uint64_t reads;
  uint64_t direct_bytes;     /* From the drive to the device. */
  uint64_t compatible_bytes; /* Through the host's memory. */
  uint64_t unknown_bytes;    /* The library's version tells nothing. */
};

/* One read of a batch: as the arguments of `read`. */
struct feedrace_cuda_direct_read {
  feedrace_cuda_file* file;
  uint64_t base;
  uint64_t bytes;
  uint64_t file_offset;
  uint64_t memory_offset;
  uint64_t bytes_read; /* Out. */
  int32_t status;      /* Out: enum feedrace_cuda_status. */
  int32_t reserved;
};

struct feedrace_cuda_plugin {
  uint32_t abi_version; /* First, and never moved: the loader reads it before anything else. */
  uint32_t struct_bytes;
  const char* version;       /* Of Feedrace: "0.1.0". */
  uint32_t built_for_cuda;   /* 13000 is 13.0: the oldest driver that runs the kernels. */
  const char* architectures; /* Of the kernels: "sm_80 sm_90 compute_90"; "" without kernels. */

  /* --- the libraries ----------------------------------------------------------------------- */
  /* Never fails for a library that is absent: `info` says which, and why. */
  int (*open_runtime)(const struct feedrace_cuda_options* options, feedrace_cuda_runtime** runtime,
                      struct feedrace_cuda_error* error);
  /* After all that was opened with it. */
  void (*close_runtime)(feedrace_cuda_runtime* runtime);
  /* Facts as JSON, ended by a 0 byte, of *needed_bytes with it; cut where capacity ends. Keys:
     "driver": {"version": "13.0", "library": path} or {"missing": why, "remedy": what to do};
     "nvml", "nvjpeg", "cufile": likewise; nvjpeg also "hardware": [{"ordinal", "engines",
     "cores"}], for which each device's context is made for a moment;
     "devices": [{"ordinal", "name", "uuid", "pci", "compute", "memory_bytes",
                  "multiprocessors"}]; "devices_missing": why there are none. */
  int (*info)(feedrace_cuda_runtime* runtime, char* json, size_t capacity, size_t* needed_bytes,
              struct feedrace_cuda_error* error);

  /* --- a device ---------------------------------------------------------------------------- */
  int (*open_device)(feedrace_cuda_runtime* runtime, int32_t ordinal, feedrace_cuda_device** device,
                     struct feedrace_cuda_error* error);
  void (*close_device)(feedrace_cuda_device* device);
  int (*memory_facts)(feedrace_cuda_device* device, uint64_t* free_bytes, uint64_t* total_bytes,
                      struct feedrace_cuda_error* error);

  /* --- memory: waits for the device, so not in steady state ----------------------------------- */
  /* Aligned to 64 KiB, of which cuFile registers whole ones. */
  int (*allocate)(feedrace_cuda_device* device, size_t bytes, uint64_t* address,
                  struct feedrace_cuda_error* error);
  void (*release)(feedrace_cuda_device* device, uint64_t address);
  /* Pins memory of the host that the caller owns, for copies that do not wait. Whole pages. */
  int (*pin)(feedrace_cuda_device* device, void* memory, size_t bytes,
             struct feedrace_cuda_error* error);
  void (*unpin)(feedrace_cuda_device* device, void* memory);

  /* --- streams and events --------------------------------------------------------------------- */
  int (*create_stream)(feedrace_cuda_device* device, feedrace_cuda_stream* stream,
                       struct feedrace_cuda_error* error);
  /* Waits for what is on it. */
  void (*destroy_stream)(feedrace_cuda_device* device, feedrace_cuda_stream stream);
  int (*create_event)(feedrace_cuda_device* device, uint32_t with_time, feedrace_cuda_event* event,
                      struct feedrace_cuda_error* error);
  void (*destroy_event)(feedrace_cuda_device* device, feedrace_cuda_event event);
  int (*record)(feedrace_cuda_device* device, feedrace_cuda_event event,
                feedrace_cuda_stream stream, struct feedrace_cuda_error* error);
  /* What comes on the stream from now on starts after the event; the caller does not wait. */
  int (*make_stream_wait)(feedrace_cuda_device* device, feedrace_cuda_stream stream,
                          feedrace_cuda_event event, struct feedrace_cuda_error* error);
  /* Without waiting. */
  int (*is_done)(feedrace_cuda_device* device, feedrace_cuda_event event, uint32_t* done,
                 struct feedrace_cuda_error* error);
  int (*wait)(feedrace_cuda_device* device, feedrace_cuda_event event,
              struct feedrace_cuda_error* error);
  /* Between two events with time that are done. */
  int (*elapsed_ms)(feedrace_cuda_device* device, feedrace_cuda_event begin,
                    feedrace_cuda_event end, float* milliseconds,
                    struct feedrace_cuda_error* error);

  /* --- copies: ordered on the stream; pinned memory must stay until the stream is past ---------
   */
  int (*copy_to_device)(feedrace_cuda_device* device, uint64_t destination, const void* source,
                        size_t bytes, feedrace_cuda_stream stream,
                        struct feedrace_cuda_error* error);
  int (*copy_to_host)(feedrace_cuda_device* device, void* destination, uint64_t source,
                      size_t bytes, feedrace_cuda_stream stream, struct feedrace_cuda_error* error);
  int (*copy_on_device)(feedrace_cuda_device* device, uint64_t destination, uint64_t source,
                        size_t bytes, feedrace_cuda_stream stream,
                        struct feedrace_cuda_error* error);

  /* --- the fused pass: crop, resize, mirror, normalise, convert; two launches a batch -----------
   */
  /* Bytes of device memory, aligned to 16, that a call with just these geometries needs beside. */
  int (*fused_pass_scratch)(feedrace_cuda_device* device,
                            const struct feedrace_cuda_geometry* geometries, uint32_t count,
                            const struct feedrace_cuda_output* output, size_t* bytes,
                            struct feedrace_cuda_error* error);
  /* pictures, geometries: [count], on the host, read before the call returns; row_bytes of at least
     3 a pixel. `staging`: pinned, `staging_bytes` >= count * 256. Scratch and staging are in use
     until the stream is past, also when the call failed. */
  int (*fused_pass)(feedrace_cuda_device* device, const struct feedrace_cuda_picture* pictures,
                    const struct feedrace_cuda_geometry* geometries, uint32_t count,
                    const struct feedrace_cuda_output* output, uint64_t scratch,
                    size_t scratch_bytes, void* staging, size_t staging_bytes,
                    feedrace_cuda_stream stream, struct feedrace_cuda_error* error);

  /* --- nvJPEG ----------------------------------------------------------------------------------
   */
  /* Closed before its device. Memory for max_batch pictures of max_width_px x max_height_px may be
     taken here (NO_MEMORY, with the sizes): give what the data has, not the largest that there
     could be. */
  int (*open_decoder)(feedrace_cuda_device* device,
                      const struct feedrace_cuda_decoder_options* options,
                      feedrace_cuda_decoder** decoder, struct feedrace_cuda_error* error);
  void (*close_decoder)(feedrace_cuda_decoder* decoder); /* May be null. */
  /* Pictures that it refuses or that fail have a status of their own, and the call succeeds; those
     are the caller's to decode elsewhere. Ordered on the stream, which must be past the call before
     `bytes` and `device_bytes` go. After a call that failed no picture is being written. */
  int (*decode)(feedrace_cuda_decoder* decoder, struct feedrace_cuda_jpeg* jpegs, uint32_t count,
                feedrace_cuda_stream stream, struct feedrace_cuda_error* error);

  /* --- cuFile ------------------------------------------------------------------------------------
   */
  /* close_direct comes before close_device, and before memory is released that is still registered:
     nvidia-fs can deadlock over that.
     Refused with the first reason of: driver, device, context, /proc/modules, udev, /dev/nvidia-fs
     nodes, the library itself. */
  int (*open_direct)(feedrace_cuda_device* device,
                     const struct feedrace_cuda_direct_options* options,
                     feedrace_cuda_direct** direct, struct feedrace_cuda_error* error);
  void (*close_direct)(feedrace_cuda_direct* direct);
  /* Device memory of `allocate`, whole 64 KiB pages; before `release`, `unregister_memory`. */
  int (*register_memory)(feedrace_cuda_direct* direct, uint64_t address, size_t bytes,
                         struct feedrace_cuda_error* error);
  void (*unregister_memory)(feedrace_cuda_direct* direct, uint64_t address);
  /* The descriptor (opened with O_DIRECT) stays the caller's, and open until close_file. */
  int (*open_file)(feedrace_cuda_direct* direct, int descriptor, feedrace_cuda_file** file,
                   struct feedrace_cuda_error* error);
  void (*close_file)(feedrace_cuda_file* file);
  /* Reads to base + memory_offset, base being what was registered. Blocks. Fewer bytes than asked
     only at the end of the file; 0 of a file that goes on is a failure. Several threads may read
     one file. Bytes and both offsets are multiples of 4096. */
  int (*read)(feedrace_cuda_file* file, uint64_t base, size_t bytes, uint64_t file_offset,
              uint64_t memory_offset, size_t* bytes_read, struct feedrace_cuda_error* error);
  int (*direct_counts)(feedrace_cuda_direct* direct, struct feedrace_cuda_direct_counts* counts,
                       struct feedrace_cuda_error* error);
  /* All parameters as JSON, as `info` gives it. */
  int (*direct_facts)(feedrace_cuda_direct* direct, char* json, size_t capacity,
                      size_t* needed_bytes, struct feedrace_cuda_error* error);
  /* Reads of any files of `direct`, at once; blocks until all are done. Each has a status of its
     own; the call gives the first that is not 0, with its text. */
  int (*read_batch)(feedrace_cuda_direct* direct, struct feedrace_cuda_direct_read* reads,
                    uint32_t count, struct feedrace_cuda_error* error);
  /* `read`, ordered on a stream of the device: returns at once. `*pending` is given back by
     finish_read, which must be called once an event behind it on the stream is done, on success or
     failure; close_file waits for those that were forgotten, and frees them. */
  int (*read_async)(feedrace_cuda_file* file, uint64_t base, size_t bytes, uint64_t file_offset,
                    uint64_t memory_offset, feedrace_cuda_stream stream,
                    feedrace_cuda_pending_read** pending, struct feedrace_cuda_error* error);
  /* INVALID while the stream has not come to it: then `pending` lives on. Otherwise it is gone. A
     read that came short is completed here, by blocking. */
  int (*finish_read)(feedrace_cuda_pending_read* pending, size_t* bytes_read,
                     struct feedrace_cuda_error* error);

  /* --- nvJPEG, goes on -------------------------------------------------------------------------
   */
  /* 1 where a hardware engine gets its share of the pictures: it decodes whole ones only. */
  uint32_t (*has_hardware_engine)(const feedrace_cuda_decoder* decoder);
  /* The way that reads of the file go, as a probe of its file system has shown: enum
     feedrace_cuda_path. */
  uint32_t (*path_of_file)(const feedrace_cuda_file* file);

  /* --- memory, goes on -------------------------------------------------------------------------
   */
  /* The NUMA node of the host that is nearest to the device; -1 where there is none to tell. */
  int32_t (*host_node)(const feedrace_cuda_device* device);

  /* --- the libraries, goes on -----------------------------------------------------------------
   */
  /* What NVML sees the devices do at this moment, as JSON, as `info` gives it. No context is made;
     it takes 20 ms a device. Keys: "missing": why there is nothing, with "remedy"; else "devices":
     [{"name", "pci", "busy_share" (of the last second or less, with any kernel),
     "memory_used_bytes", "memory_total_bytes", "pcie_received_bytes_per_second",
     "pcie_sent_bytes_per_second", "decoder_share", "jpeg_share"}]; what a device does not tell is
     absent. */
  int (*use)(feedrace_cuda_runtime* runtime, char* json, size_t capacity, size_t* needed_bytes,
             struct feedrace_cuda_error* error);

  /* --- profilers -------------------------------------------------------------------------------
   */
  /* A range of the calling thread, which NVIDIA's profilers show (NVTX, domain "feedrace"); ranges
     nest, and each is ended by the thread that began it. `name` lives as long as the process.
     Without a profiler a call costs a look at a pointer. */
  void (*begin_range)(const char* name);
  void (*end_range)(void);
};

/* The one symbol that the plug-in exports. Never null. */
const struct feedrace_cuda_plugin* feedrace_cuda_plugin_get(void);

#ifdef __cplusplus
}
#endif
