// SPDX-License-Identifier: Apache-2.0
// Where data lies: file system, mount options, and the queues of the disks below.

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "feedrace/core/text.h"
#include "feedrace/doctor/checks.h"
#include "feedrace/host/sys_text.h"

namespace feedrace::doctor {
namespace {

/// Where the kernel takes a setting of a disk, as a word of a command.
std::string queue_file(const std::string& disk, const char* name) {
  return shell_word(fmt::format("/sys/block/{}/queue/{}", disk, name));
}

bool has_option(std::string_view options, std::string_view wanted) {
  while (!options.empty()) {
    const std::size_t end = std::min(options.find(','), options.size());
    if (options.substr(0, end) == wanted) return true;
    options.remove_prefix(std::min(end + 1, options.size()));
  }
  return false;
}

struct FileSystemKind {
  Grade grade;
  const char* why;
  const char* fix;
};

bool is_on_network(const std::string& type) {
  static const std::set<std::string> kNetwork = {"nfs", "nfs4", "cifs",   "9p",   "ceph",
                                                 "afs", "gpfs", "lustre", "smb3", "beegfs"};
  return kNetwork.contains(type);
}

FileSystemKind kind_of(const std::string& type) {
  static const std::set<std::string> kDirect = {"xfs", "ext4", "ext3", "ext2", "btrfs", "f2fs"};
  static const std::set<std::string> kMemory = {"tmpfs", "ramfs", "hugetlbfs"};
  if (kDirect.contains(type)) {
    return {Grade::kGood,
            "It takes O_DIRECT reads, so that bytes need no copy and leave no pages "
            "behind.",
            ""};
  }
  if (kMemory.contains(type)) return {Grade::kGood, "It is memory already.", ""};
  if (is_on_network(type)) {
    return {Grade::kAdvice, "Each small file costs round trips to the server.",
            "# pack small files into tar shards, read in large pieces (--shuffle window)"};
  }
  if (type == "overlay") {
    return {Grade::kAdvice,
            "It is a container's root; cuFile refuses it, and reads go through a "
            "second file system.",
            "# mount the data into the container: docker -v /data:/data"};
  }
  return {Grade::kAdvice, "Each read passes another program, or one that nobody has measured here.",
          "# put the data on XFS or ext4"};
}

void check_file_system(const Storage& storage, Findings& findings) {
  Finding one = make_finding("file_system", storage.path, Weight::kSome);
  one.wanted = "xfs or ext4 on a local drive";
  one.tip = "\"Use XFS\" holds no more than for ext4: for reading they are alike.";
  const FileSystemKind kind = kind_of(storage.mount.type);
  one.why = kind.why;
  one.fix = kind.fix;
  set_found(one, kind.grade, storage.mount.type, "the mount can't be found");
  findings.push_back(std::move(one));
}

/// Each read may write: not where nobody may write, nor where the server does it or another mount.
bool keeps_access_times(const host::Mount& mount) {
  if (is_on_network(mount.type) || mount.type == "overlay") return false;
  if (has_option(mount.options, "ro")) return false;
  return has_option(mount.options, "relatime") || has_option(mount.options, "strictatime");
}

void check_mount(const Storage& storage, Findings& findings) {
  Finding one = make_finding("mount_options", storage.path, Weight::kLittle);
  const std::string& options = storage.mount.options;
  const std::string point = shell_word(storage.mount.point);
  one.wanted = "noatime";
  one.why =
      "With relatime each file that is read is written to once a day: its time of access. "
      "That matters for a million files, not for hundreds of shards.";
  one.tip =
      "nodiratime is contained in noatime. nobarrier: XFS refuses to mount with it since "
      "4.19, and on ext4 it risks the journal and gives reads nothing. logbufs=8 is XFS's "
      "default, and of use to writes alone.";
  Grade grade = Grade::kGood;
  if (has_option(options, "nobarrier") || has_option(options, "barrier=0")) {
    grade = Grade::kProblem;
    one.fix =
        fmt::format("mount -o remount,barrier=1 {}  # and take nobarrier out of /etc/fstab", point);
  } else if (keeps_access_times(storage.mount)) {
    grade = Grade::kAdvice;
    one.fix = fmt::format("mount -o remount,noatime {}  # and noatime in /etc/fstab", point);
  }
  set_found(one, grade, options, "the mount can't be found");
  findings.push_back(std::move(one));
}

bool is_nvme(const std::string& disk) { return disk.starts_with("nvme"); }

/// The folder of a disk's queue; a multipath controller ("nvme0") has none of its own.
std::filesystem::path queue_of(const Place& place, const std::string& disk) {
  return place.root / "sys/class/block" / disk / "queue";
}

void check_scheduler(const Place& place, const std::string& disk, Findings& findings) {
  Finding one = make_finding("io_scheduler", disk, is_nvme(disk) ? Weight::kSome : Weight::kLittle);
  const auto queue = queue_of(place, disk);
  const std::string now = host::chosen_word(host::text_of(queue / "scheduler"));
  const std::string zoned = host::word_of(queue / "zoned");
  const bool is_zoned = !zoned.empty() && zoned != "none";
  const bool is_rotational = host::number_of(queue / "rotational") == 1;
  const char* wanted = is_zoned || is_rotational ? "mq-deadline" : "none";
  one.wanted = wanted;
  one.why = is_zoned
                ? "A zoned drive takes writes in order only."
                : "A drive with many queues orders requests itself; a scheduler in front of it "
                  "costs CPU time and a lock.";
  one.tip =
      "none is what the kernel chooses for NVMe by itself; the boot option elevator= is gone.";
  one.fix = fmt::format("echo {} > {}", wanted, queue_file(disk, "scheduler"));
  Grade grade = Grade::kGood;
  if (now != wanted) {
    const bool matters = is_zoned || (is_nvme(disk) && now == "bfq");
    grade = matters ? Grade::kProblem : Grade::kAdvice;
    if (is_rotational && now == "bfq") grade = Grade::kGood;
  }
  set_found(one, grade, now);
  findings.push_back(std::move(one));
}

void check_queue(const Place& place, const std::string& disk, Findings& findings) {
  constexpr std::int64_t kInFlight = 64;
  Finding one = make_finding("nr_requests", disk, Weight::kLittle);
  one.wanted = fmt::format("{} or more", kInFlight);
  one.why =
      "A reader keeps up to 64 reads in flight; what the queue does not take waits in front "
      "of it.";
  one.tip = "\"Raise nr_requests\" does nothing on NVMe: its own number of tags is the limit.";
  one.fix = fmt::format("echo 256 > {}", queue_file(disk, "nr_requests"));
  const auto now = host::number_of(queue_of(place, disk) / "nr_requests");
  set_found(one, now.value_or(0) < kInFlight ? Grade::kAdvice : Grade::kGood,
            now ? std::to_string(*now) : "");
  findings.push_back(std::move(one));
}

void check_read_ahead(const Place& place, const std::string& disk, Findings& findings) {
  constexpr std::int64_t kMostKb = 4096;
  Finding one = make_finding("read_ahead", disk, Weight::kLittle);
  one.wanted = "128 to 4,096 KiB";
  one.why =
      "Reads through the page cache fetch so much ahead, of which small files and random "
      "samples throw most away.";
  one.tip =
      "A huge value helps sequential reads through the page cache alone, and O_DIRECT not at "
      "all.";
  one.fix = fmt::format("echo 128 > {}", queue_file(disk, "read_ahead_kb"));
  const auto now = host::number_of(queue_of(place, disk) / "read_ahead_kb");
  set_found(one, now.value_or(0) > kMostKb ? Grade::kAdvice : Grade::kGood,
            now ? fmt::format("{} KiB", *now) : "");
  findings.push_back(std::move(one));
}

void check_kind(const Place& place, const std::string& disk, Findings& findings) {
  Finding one = make_finding("disk_kind", disk, Weight::kLarge);
  one.wanted = "solid state";
  one.why = "A disk with heads reads some hundred random samples a second.";
  one.fix =
      "# pack into shards and read them in large pieces (--shuffle window), or copy the data "
      "to a solid-state drive";
  const auto rotational = host::number_of(queue_of(place, disk) / "rotational");
  const bool is_virtual = disk.starts_with("vd") || disk.starts_with("xvd");
  if (is_virtual && rotational == 1) {
    set_found(one, Grade::kUnknown, "",
              "a virtual disk, which calls itself rotational whatever lies behind it");
    findings.push_back(std::move(one));
    return;
  }
  set_found(one, rotational == 1 ? Grade::kProblem : Grade::kGood,
            rotational ? (*rotational == 1 ? "rotational" : "solid state") : "");
  findings.push_back(std::move(one));
}

}  // namespace

void check_storage(const Place& place, const std::vector<Storage>& storages, Findings& findings) {
  for (const Storage& storage : storages) {
    check_file_system(storage, findings);
    check_mount(storage, findings);
  }
  for (const std::string& disk : disks_of(storages)) {
    std::error_code unknown;
    if (!std::filesystem::exists(queue_of(place, disk), unknown)) continue;  // A controller.
    check_kind(place, disk, findings);
    check_scheduler(place, disk, findings);
    check_queue(place, disk, findings);
    check_read_ahead(place, disk, findings);
  }
}

std::vector<std::string> disks_of(const std::vector<Storage>& storages) {
  std::set<std::string> names;
  for (const Storage& storage : storages) {
    names.insert(storage.device.disks.begin(), storage.device.disks.end());
  }
  return {names.begin(), names.end()};
}

}  // namespace feedrace::doctor
