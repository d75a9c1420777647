// SPDX-License-Identifier: Apache-2.0
#include "feedrace/cuda/plugin/direct.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <system_error>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/cuda/plugin/direct_errors.h"
#include "feedrace/cuda/plugin/direct_probe.h"

namespace feedrace::cuda_plugin {

PrimaryContext::PrimaryContext(const feedrace_cuda_device& opened)
    : driver(opened.driver), device(opened.device), name(opened.name) {
  check(driver, driver.cuDevicePrimaryCtxRetain(&context, device),
        "cuDevicePrimaryCtxRetain of " + name);
}

PrimaryContext::~PrimaryContext() { driver.cuDevicePrimaryCtxRelease(device); }

Entered::Entered(const PrimaryContext& primary) : driver_(primary.driver) {
  check(driver_, driver_.cuCtxPushCurrent(primary.context), "cuCtxPushCurrent of " + primary.name);
}

Entered::~Entered() { driver_.cuCtxPopCurrent(nullptr); }

EnteredIfPossible::EnteredIfPossible(const PrimaryContext& primary) noexcept {
  static_cast<void>(guarded(nullptr, [&] { entered_.emplace(primary); }));
}

DirectSession::DirectSession(const feedrace_cuda_device& device,
                             const feedrace_cuda_direct_options& options)
    : primary(device),
      gate(options.system_root == nullptr ? "" : options.system_root),
      cufile(device.runtime.folders),
      allow_compatible(options.allow_compatible != 0) {
  if (const std::string refusal = gate.refusal(); !refusal.empty()) {
    throw Refusal(FEEDRACE_CUDA_UNSUPPORTED, refusal);
  }
  if (!cufile.missing.empty()) {
    throw Refusal(FEEDRACE_CUDA_UNSUPPORTED, cufile.missing + "; " + cufile.remedy);
  }
  const Entered entered(primary);
  lease.emplace(primary.driver, cufile, options);
}

InSession::InSession(DirectSession& session) : open_(session.closing), entered_(session.primary) {
  if (session.is_closed) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  "close_direct was called; finish all reads, then close files and reader");
  }
}

void close_session(DirectSession& session) noexcept {
  const std::unique_lock alone(session.closing);
  if (session.is_closed) return;
  session.is_closed = true;
  const EnteredIfPossible entered(session.primary);
  const std::lock_guard lock(session.mutex);
  for (feedrace_cuda_file* file : session.files) wait_for_pending(*file);
  // Memory first: nvidia-fs can deadlock when it is freed while it is registered.
  for (const auto& [address, bytes] : session.registered_bytes) {
    session.cufile.cuFileBufDeregister(reinterpret_cast<void*>(address));
  }
  session.registered_bytes.clear();
  for (feedrace_cuda_file* file : session.files) {
    session.cufile.cuFileHandleDeregister(file->handle);
    file->handle = nullptr;
  }
  session.files.clear();
  session.lease.reset();
}

std::uint64_t size_bytes_of(int descriptor, const std::string& name) {
  struct stat about{};
  if (fstat(descriptor, &about) != 0) {
    throw Refusal(FEEDRACE_CUDA_IO,
                  fmt::format("fstat of {} gave errno {} ({}); keep the descriptor open until "
                              "close_file",
                              name, errno, std::generic_category().message(errno)));
  }
  return static_cast<std::uint64_t>(about.st_size);
}

namespace {

using Json = nlohmann::ordered_json;

void refuse_missing_device(const feedrace_cuda_device& device) {
  const Driver& driver = device.driver;
  if (!driver.missing.empty()) throw Refusal(FEEDRACE_CUDA_UNSUPPORTED, driver.refusal());
  int count = 0;
  check(driver, driver.cuDeviceGetCount(&count), "cuDeviceGetCount");
  if (count == 0) {
    throw Refusal(FEEDRACE_CUDA_UNSUPPORTED,
                  "the driver has no GPU for this process; look at CUDA_VISIBLE_DEVICES and "
                  "nvidia-smi");
  }
}

int open_direct(feedrace_cuda_device* device, const feedrace_cuda_direct_options* options,
                feedrace_cuda_direct** direct, feedrace_cuda_error* error) {
  return guarded(error, [&] {
    refuse_missing_device(*device);
    *direct = new feedrace_cuda_direct{std::make_shared<DirectSession>(*device, *options)};
  });
}

void close_direct(feedrace_cuda_direct* direct) {
  if (direct == nullptr) return;
  close_session(*direct->session);
  delete direct;
}

/// Whether [address, + bytes) meets memory that is registered.
bool overlaps(const std::map<std::uint64_t, std::uint64_t>& registered_bytes, std::uint64_t address,
              std::uint64_t bytes) {
  return std::any_of(registered_bytes.begin(), registered_bytes.end(), [&](const auto& range) {
    return address < range.first + range.second && range.first < address + bytes;
  });
}

int register_memory(feedrace_cuda_direct* direct, std::uint64_t address, std::size_t bytes,
                    feedrace_cuda_error* error) {
  return guarded(error, [&] {
    if (bytes == 0 || address % kGpuPageBytes != 0 || bytes % kGpuPageBytes != 0) {
      throw Refusal(FEEDRACE_CUDA_INVALID,
                    fmt::format("register_memory of {} bytes at {:#x}: cuFile takes whole pages of "
                                "65536 bytes; round both, as allocate does",
                                bytes, address));
    }
    DirectSession& session = *direct->session;
    const InSession in(session);
    const std::lock_guard lock(session.mutex);
    if (overlaps(session.registered_bytes, address, bytes)) {
      throw Refusal(FEEDRACE_CUDA_INVALID,
                    fmt::format("register_memory of {} bytes at {:#x}: a part is registered; "
                                "unregister it first",
                                bytes, address));
    }
    const auto added = session.registered_bytes.emplace(address, bytes).first;
    const CUfileError_t came =
        session.cufile.cuFileBufRegister(reinterpret_cast<void*>(address), bytes, 0);
    if (came.err == CU_FILE_SUCCESS) return;
    session.registered_bytes.erase(added);
    throw cufile_refusal(
        session.primary.driver, came,
        fmt::format("cuFileBufRegister of {} bytes on {}", bytes, session.primary.name));
  });
}

void unregister_memory(feedrace_cuda_direct* direct, std::uint64_t address) {
  DirectSession& session = *direct->session;
  const EnteredIfPossible entered(session.primary);
  const std::lock_guard lock(session.mutex);
  if (session.registered_bytes.erase(address) == 0) return;
  session.cufile.cuFileBufDeregister(reinterpret_cast<void*>(address));
}

std::string name_of(int descriptor) {
  char path[4096];
  const ssize_t length =
      readlink(fmt::format("/proc/self/fd/{}", descriptor).c_str(), path, sizeof(path));
  return length > 0 ? std::string(path, static_cast<std::size_t>(length))
                    : fmt::format("descriptor {}", descriptor);
}

/// The file's device; throws for what cuFile cannot read directly.
dev_t check_descriptor(int descriptor, const std::string& name) {
  struct stat about{};
  const int flags = fcntl(descriptor, F_GETFL);
  if (flags < 0 || fstat(descriptor, &about) != 0) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  fmt::format("open_file of {}: errno {} ({}); give an open "
                              "descriptor",
                              name, errno, std::generic_category().message(errno)));
  }
  if (!S_ISREG(about.st_mode)) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  fmt::format("open_file of {}: it is no regular file; give one", name));
  }
  if ((flags & O_ACCMODE) == O_WRONLY) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  fmt::format("open_file of {}: it is open for writing only; open it with O_RDONLY "
                              "| O_DIRECT",
                              name));
  }
  if ((flags & O_DIRECT) == 0) {
    throw Refusal(FEEDRACE_CUDA_INVALID,
                  fmt::format("open_file of {}: without O_DIRECT it goes through the page cache, "
                              "never directly; open it with O_RDONLY | O_DIRECT",
                              name));
  }
  return about.st_dev;
}

CUfileHandle_t register_handle(DirectSession& session, const feedrace_cuda_file& file) {
  CUfileDescr_t description{};
  description.type = CU_FILE_HANDLE_TYPE_OPAQUE_FD;
  description.handle.fd = file.descriptor;
  CUfileHandle_t handle = nullptr;
  check(session.primary.driver, session.cufile.cuFileHandleRegister(&handle, &description),
        "cuFileHandleRegister of " + file.name);
  return handle;
}

/// Where cuFile's copying is an error: what cannot be shown to be direct, and may be copied, is
/// one.
void refuse_copying(const DirectSession& session, const feedrace_cuda_file& file) {
  if (session.allow_compatible) return;
  const bool may_copy = file.path == DirectPath::kUnknown && allows_compatible(session.cufile);
  if (file.path != DirectPath::kCompatible && !may_copy) return;
  throw Refusal(
      FEEDRACE_CUDA_UNSUPPORTED,
      fmt::format(
          "{} is read through the host's memory by cuFile{}; see docs/gpudirect.md for what "
          "a direct path needs, or allow the compatible one (io_fallback)",
          file.name, may_copy ? ", as far as can be seen" : ""));
}

int open_file(feedrace_cuda_direct* direct, int descriptor, feedrace_cuda_file** out,
              feedrace_cuda_error* error) {
  return guarded(error, [&] {
    auto file = std::make_unique<feedrace_cuda_file>();
    file->session = direct->session;
    file->descriptor = descriptor;
    file->name = name_of(descriptor);
    const dev_t file_system = check_descriptor(descriptor, file->name);
    DirectSession& session = *direct->session;
    const InSession in(session);
    file->handle = register_handle(session, *file);
    try {
      file->path = path_of(session, *file, file_system);
      refuse_copying(session, *file);
      const std::lock_guard lock(session.mutex);
      session.files.insert(file.get());
    } catch (...) {
      session.cufile.cuFileHandleDeregister(file->handle);
      throw;
    }
    *out = file.release();
  });
}

void close_file(feedrace_cuda_file* file) {
  if (file == nullptr) return;
  {
    DirectSession& session = *file->session;
    const std::shared_lock open(session.closing);
    const EnteredIfPossible entered(session.primary);
    wait_for_pending(*file);
    const std::lock_guard lock(session.mutex);
    // Otherwise close_direct was first.
    if (session.files.erase(file) > 0) session.cufile.cuFileHandleDeregister(file->handle);
  }
  free_pending(*file);
  delete file;
}

std::uint32_t path_of_file(const feedrace_cuda_file* file) {
  switch (file->path) {
    case DirectPath::kNvidiaFs:
    case DirectPath::kP2pdma:
      return FEEDRACE_CUDA_PATH_DIRECT;
    case DirectPath::kCompatible:
      return FEEDRACE_CUDA_PATH_COMPATIBLE;
    case DirectPath::kUnknown:
      break;
  }
  return FEEDRACE_CUDA_PATH_UNKNOWN;
}

int direct_counts(feedrace_cuda_direct* direct, feedrace_cuda_direct_counts* counts,
                  feedrace_cuda_error* error) {
  return guarded(error, [&] {
    const DirectSession& session = *direct->session;
    *counts = {session.reads, session.direct_bytes, session.compatible_bytes,
               session.unknown_bytes};
  });
}

Json nvidia_fs_facts(const DirectGate& gate) {
  if (gate.nvidia_fs_version.empty()) return {{"missing", "nvidia-fs is not loaded"}};
  return {{"version", gate.nvidia_fs_version},
          {"devices", gate.nvidia_fs_devices},
          {"has_nodes", gate.has_nodes}};
}

Json settings_facts(DirectLease& lease) {
  Json out = Json::object();
  for (const DirectSetting& setting : lease.settings()) {
    out[setting.name] = setting.refused.empty() ? Json(setting.value) : Json(setting.refused);
  }
  return out;
}

Json file_system_facts(const std::map<dev_t, DirectFileSystem>& file_systems) {
  Json out = Json::array();
  for (const auto& [device, found] : file_systems) {
    out.push_back({{"device", fmt::format("{}:{}", major(device), minor(device))},
                   {"path", to_string(found.path)},
                   {"probed_file", found.probed_file}});
  }
  return out;
}

Json properties_facts(const CuFile& cufile) {
  CUfileDrvProps_t properties{};
  if (cufile.cuFileDriverGetProperties(&properties).err != CU_FILE_SUCCESS) return nullptr;
  return {{"nvidia_fs",
           fmt::format("{}.{}", properties.nvfs.major_version, properties.nvfs.minor_version)},
          {"status_flags", properties.nvfs.dstatusflags},
          {"control_flags", properties.nvfs.dcontrolflags},
          {"feature_flags", properties.fflags},
          {"max_batch", properties.max_batch_io_size}};
}

int give_direct_facts(feedrace_cuda_direct* direct, char* json, std::size_t capacity,
                      std::size_t* needed_bytes, feedrace_cuda_error* error) {
  return guarded(error, [&] {
    DirectSession& session = *direct->session;
    const InSession in(session);
    Json facts = {{"version", version_text(session.cufile.version)},
                  {"library", session.cufile.library.path()},
                  {"gpu", session.primary.name},
                  {"started_by_us", session.lease->is_ours()},
                  {"allow_compatible", session.allow_compatible},
                  {"asked", settings_facts(*session.lease)},
                  {"parameters", Json::parse(direct_parameters(session.cufile))},
                  {"properties", properties_facts(session.cufile)},
                  {"nvidia_fs", nvidia_fs_facts(session.gate)}};
    const std::lock_guard lock(session.mutex);
    facts["file_systems"] = file_system_facts(session.file_systems);
    give_text(facts.dump(-1, ' ', false, Json::error_handler_t::replace), json, capacity,
              needed_bytes);
  });
}

}  // namespace

std::string direct_facts(const feedrace_cuda_runtime& runtime) {
  const CuFile cufile(runtime.folders);
  const DirectGate gate("");
  Json facts;
  if (!cufile.missing.empty()) {
    facts = {{"missing", cufile.missing}, {"remedy", cufile.remedy}};
  } else {
    facts = {{"version", version_text(cufile.version)}, {"library", cufile.library.path()}};
    // Not started to see: a start proves nothing, and spins on some machines.
    if (const std::string refusal = gate.refusal(); !refusal.empty()) facts["refused"] = refusal;
  }
  facts["nvidia_fs"] = nvidia_fs_facts(gate);
  return facts.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void add_direct(feedrace_cuda_plugin& table) {
  table.open_direct = open_direct;
  table.close_direct = close_direct;
  table.register_memory = register_memory;
  table.unregister_memory = unregister_memory;
  table.open_file = open_file;
  table.close_file = close_file;
  table.direct_counts = direct_counts;
  table.path_of_file = path_of_file;
  table.direct_facts = give_direct_facts;
  add_direct_reads(table);
}

}  // namespace feedrace::cuda_plugin
