// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/fio.h"

#include <algorithm>
#include <string_view>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "feedrace/core/json_text.h"
#include "feedrace/core/text.h"
#include "feedrace/diagnose/child.h"
#include "feedrace/diagnose/page_cache.h"

namespace feedrace::diagnose {
namespace {

/// Makes the C library ask for huge pages, as our buffers do: the kernel pins and maps them faster.
constexpr std::string_view kHugePages = "GLIBC_TUNABLES=glibc.malloc.hugetlb=1";

/// fio separates file names by colons.
std::string escaped(const std::string& path) {
  std::string text;
  for (const char c : path) {
    if (c == ':' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

Failure unsupported(std::string reason) { return {ErrorCode::kUnsupported, std::move(reason)}; }

std::string first_line(const std::string& text) {
  return printable(text.substr(0, text.find('\n')));
}

/// What makes fio take `path`.
std::vector<std::string> engine_arguments(const IoPath& path, const IoJob& job) {
  if (path.has_threads()) {
    // From front to end, every thread would read the same: each gets its part.
    const std::uint64_t part = job.block_count() / job.thread_count * job.block_bytes;
    std::vector<std::string> arguments = {"--ioengine=psync",
                                          fmt::format("--numjobs={}", job.thread_count)};
    if (!job.is_random) {
      arguments.push_back(fmt::format("--offset_increment={}", part));
      arguments.push_back(fmt::format("--size={}", part));
    } else {
      arguments.push_back(fmt::format("--size={}", job.size_bytes()));
    }
    return arguments;
  }
  std::vector<std::string> arguments = {"--ioengine=io_uring",
                                        fmt::format("--iodepth={}", job.queue_depth),
                                        fmt::format("--size={}", job.size_bytes())};
  if (path.registers_memory) arguments.emplace_back("--fixedbufs");
  if (path.options.fixed_files) arguments.emplace_back("--registerfiles");
  if (path.options.sqpoll) arguments.emplace_back("--sqthread_poll");
  if (path.options.iopoll) arguments.emplace_back("--hipri");
  return arguments;
}

double number_of(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_number() ? found->get<double>() : 0.0;
}

}  // namespace

Result<Fio> Fio::find() {
  std::string program = find_program("fio");
  if (program.empty()) return unsupported("fio is not installed (apt-get install fio)");
  const auto end = run_child(program, {"--version"});
  if (!end) return end.error();
  if (end->status != 0) return unsupported("fio --version fails: " + first_line(end->errors));
  return Fio(std::move(program), first_line(end->output));
}

Result<std::vector<std::string>> Fio::arguments(const IoPath& path, const IoJob& job,
                                                bool is_cold) const {
  if (path.plain || path.device_read) return unsupported("fio has no such path");
  if (path.has_threads() && path.takes != Path::kDirect) {
    return unsupported("fio's blocking reads are compared where they are direct");
  }
  if (job.files.size() != 1) return unsupported("fio is compared on one file; name one");
  std::vector<std::string> arguments = {
      "--name=feedrace",
      "--filename=" + escaped(job.files.front().path),
      job.is_random ? "--rw=randread" : "--rw=read",
      fmt::format("--bs={}", job.block_bytes),
      fmt::format("--runtime={}ms", static_cast<std::uint64_t>(std::max(1.0, job.seconds * 1000))),
      fmt::format("--direct={}", path.takes == Path::kDirect ? 1 : 0),
      "--thread",
      "--group_reporting",
      "--readonly",
      "--randrepeat=0",
      "--fadvise_hint=0",    // Feedrace gives no advice either.
      "--iomem_align=4096",  // As ours: copies to unaligned memory can take four times as long.
      "--output-format=json",
      "--eta=never",
  };
  for (std::string& more : engine_arguments(path, job)) arguments.push_back(std::move(more));
  if (path.uses_page_cache() && is_cold) return arguments;  // Each block once, as ours.
  arguments.emplace_back("--time_based");
  arguments.emplace_back("--norandommap");
  if (!is_cold) arguments.emplace_back("--invalidate=0");
  return arguments;
}

Result<FioRun> Fio::run(const IoPath& path, const IoJob& job, bool is_cold) const {
  auto done = run_job(path, job, is_cold);
  if (!done) return done.error();
  if (!path.options.sqpoll && !(path.uses_page_cache() && !path.has_threads())) return done->run;
  IoJob instant = job;
  instant.seconds = 0.001;
  const auto idle = run_job(path, instant, is_cold);
  if (!idle) return idle.error();
  const double cpu_seconds = std::max(0.0, done->process_cpu_seconds - idle->process_cpu_seconds);
  done->run.cpu_seconds_per_gb = cpu_seconds / done->run.gigabytes;
  return done->run;
}

Result<Fio::Job> Fio::run_job(const IoPath& path, const IoJob& job, bool is_cold) const {
  const auto options = arguments(path, job, is_cold);
  if (!options) return options.error();
  if (const auto ready = is_cold ? drop_pages(job) : fill_pages(job); !ready) return ready.error();
  const auto end = run_child(program_, *options, {std::string(kHugePages)});
  if (!end) return end.error();
  if (end->status != 0) return unsupported("fio fails: " + first_line(end->errors));
  const auto run = parse_fio(end->output);
  if (!run) return run.error();
  return Job{*run, end->cpu_seconds};
}

Result<FioRun> parse_fio(const std::string& output) {
  // Notes may stand in front.
  const std::size_t start = output.find('{');
  const nlohmann::json report =
      parse_shallow_json(start == std::string::npos ? "" : std::string_view(output).substr(start));
  const auto jobs = report.is_object() ? report.find("jobs") : report.end();
  if (!report.is_object() || jobs == report.end() || !jobs->is_array() || jobs->empty() ||
      !jobs->front().contains("read")) {
    return unsupported("fio printed no JSON of a job: " + first_line(output));
  }
  const nlohmann::json& job = jobs->front();
  const nlohmann::json& read = job["read"];
  const double bytes = number_of(read, "io_bytes");
  const double read_seconds = number_of(read, "runtime") * 1e-3;
  if (number_of(job, "error") != 0 || bytes <= 0 || read_seconds <= 0) {
    return unsupported(fmt::format("fio's job read nothing (error {})", number_of(job, "error")));
  }
  // usr_cpu and sys_cpu are percentages of the time of all threads of the job together.
  const double cpu_share = (number_of(job, "usr_cpu") + number_of(job, "sys_cpu")) / 100;
  const double cpu_seconds = cpu_share * number_of(job, "job_runtime") * 1e-3;
  const double gigabytes = bytes * 1e-9;
  return FioRun{gigabytes, gigabytes / read_seconds, cpu_seconds / gigabytes};
}

}  // namespace feedrace::diagnose
