// SPDX-License-Identifier: Apache-2.0
#include "feedrace/diagnose/fio.h"

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/diagnose/child.h"
#include "feedrace/diagnose/io_table.h"

namespace feedrace::diagnose {
namespace {

IoPath path_named(const std::string& name) {
  for (const IoPath& path : io_paths()) {
    if (path.name == name) return path;
  }
  ADD_FAILURE() << "no path " << name;
  return {};
}

IoJob one_file() {
  IoJob job;
  job.files = {{"/data/a:b.bin", 100}};
  return job;
}

bool has(const std::vector<std::string>& arguments, const std::string& wanted) {
  return std::find(arguments.begin(), arguments.end(), wanted) != arguments.end();
}

TEST(Fio, FiguresComeFromTheJobAndNotFromItsStart) {
  const auto run = parse_fio(
      "fio: a note\n{\"jobs\": [{\"error\": 0, \"job_runtime\": 2000, \"usr_cpu\": 1.5, "
      "\"sys_cpu\": 8.5, \"read\": {\"io_bytes\": 4000000000, \"runtime\": 2000}}]}");
  ASSERT_TRUE(run) << run.error().message;
  EXPECT_DOUBLE_EQ(run->gigabytes, 4);
  EXPECT_DOUBLE_EQ(run->gb_per_second, 2);
  EXPECT_DOUBLE_EQ(run->cpu_seconds_per_gb, 0.05);
}

TEST(Fio, OutputThatIsNoneOrOfAFailedJobIsRefused) {
  for (const char* output :
       {"", "fio: unrecognized option\n", "{", "[]", "{}", R"({"jobs": []})", R"({"jobs": [{}]})",
        R"({"jobs": 3})", R"({"jobs": [{"error": 95, "read": {"io_bytes": 1, "runtime": 1}}]})",
        R"({"jobs": [{"error": 0, "read": {"io_bytes": 0, "runtime": 1}}]})",
        R"({"jobs": [{"error": 0, "read": 7}]})"}) {
    const auto run = parse_fio(output);
    ASSERT_FALSE(run) << output;
    EXPECT_EQ(run.error().code, ErrorCode::kUnsupported) << output;
  }
}

TEST(Fio, JobIsLikeOurs) {
  const auto fio = Fio::find();
  if (!fio) GTEST_SKIP() << fio.error().message;
  EXPECT_TRUE(fio->version().starts_with("fio-"));
  const auto direct = fio->arguments(path_named("uring+defer"), one_file(), true);
  ASSERT_TRUE(direct);
  for (const char* wanted : {"--ioengine=io_uring", "--iodepth=32", "--bs=262144", "--direct=1",
                             "--fixedbufs", "--registerfiles", "--rw=randread", "--time_based",
                             "--filename=/data/a\\:b.bin", "--size=26214400", "--readonly"}) {
    EXPECT_TRUE(has(*direct, wanted)) << wanted;
  }
  const auto plain = fio->arguments(path_named("uring"), one_file(), true);
  EXPECT_FALSE(has(*plain, "--fixedbufs"));
  EXPECT_FALSE(has(*plain, "--registerfiles"));
  EXPECT_TRUE(
      has(*fio->arguments(path_named("uring+sqpoll"), one_file(), true), "--sqthread_poll"));
  EXPECT_TRUE(has(*fio->arguments(path_named("uring+iopoll"), one_file(), true), "--hipri"));
  const auto threads = fio->arguments(path_named("direct"), one_file(), true);
  EXPECT_TRUE(has(*threads, "--ioengine=psync"));
  EXPECT_TRUE(has(*threads, "--numjobs=8"));
  const auto cold = fio->arguments(path_named("uring buffered"), one_file(), true);
  EXPECT_FALSE(has(*cold, "--time_based"));  // A second pass would be warm.
  EXPECT_TRUE(
      has(*fio->arguments(path_named("uring buffered"), one_file(), false), "--invalidate=0"));
}

TEST(Fio, PathsThatItLacksAreRefused) {
  const auto fio = Fio::find();
  if (!fio) GTEST_SKIP() << fio.error().message;
  for (const char* name : {"read+copy", "mmap", "buffered", "uncached", "cufile"}) {
    EXPECT_FALSE(fio->arguments(path_named(name), one_file(), true)) << name;
  }
  IoJob two = one_file();
  two.files.push_back({"/data/b", 1});
  EXPECT_FALSE(fio->arguments(path_named("uring"), two, true));
}

TEST(Child, GivesBothOutputsAndTheStatus) {
  const auto end = run_child("/bin/sh", {"-c", "echo out; echo err >&2; exit 7"});
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->status, 7);
  EXPECT_EQ(end->output, "out\n");
  EXPECT_EQ(end->errors, "err\n");
  EXPECT_EQ(run_child("/bin/sh", {"-c", "kill -9 $$"})->status, 128 + 9);
  EXPECT_EQ(run_child("/no/such/program", {})->status, 127);
  EXPECT_EQ(run_child("/bin/sh", {"-c", "echo $HOW $HOME"}, {"HOW=so", "HOME=there"})->output,
            "so there\n");
}

TEST(Child, MayWriteMoreThanAPipeHolds) {
  const auto end =
      run_child("/bin/sh", {"-c", "head -c 300000 /dev/zero; head -c 300000 /dev/zero >&2"});
  ASSERT_TRUE(end) << end.error().message;
  EXPECT_EQ(end->output.size(), 300000U);
  EXPECT_EQ(end->errors.size(), 300000U);
}

TEST(Child, ProgramsAreFoundInThePath) {
  EXPECT_TRUE(find_program("sh").ends_with("/sh"));
  EXPECT_TRUE(find_program("no-such-program-anywhere").empty());
}

TEST(IoTable, HasALineForEachStateAndFits) {
  std::vector<IoLine> lines = lines_of(io_paths());
  EXPECT_EQ(lines.size(), 17U + 7U);
  for (IoLine& line : lines) line.rounds.resize(2);
  lines[0].reason = "short";
  lines[1].reason = std::string(200, 'x');
  lines[2].reason = lines[1].reason;
  lines[3].pages_reason = "unknown";
  const std::string text = io_table(lines);
  EXPECT_NE(text.find("read+copy      cold  n/a: short\n"), std::string::npos) << text;
  EXPECT_NE(text.find("read+copy      warm  n/a: see note 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("mmap           cold  n/a: see note 1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("note 1: xxx"), std::string::npos) << text;
  EXPECT_EQ(text.find("note 2"), std::string::npos) << text;
  std::size_t start = 0;
  for (std::size_t line = 0; line < 1 + lines.size(); ++line) {
    const std::size_t end = text.find('\n', start);
    ASSERT_NE(end, std::string::npos);
    EXPECT_LE(end - start, 120U) << text.substr(start, end - start);
    start = end + 1;
  }
}

TEST(IoTable, OfFioHasMediansAndReasons) {
  std::vector<IoLine> lines = lines_of({path_named("uring"), path_named("direct")});
  lines[0].fio = IoComparison{{}, {}, {1, 2, 3}, {0.5, 0.5, 0.5}};
  lines[1].fio = IoComparison{"no", {}, {}, {}};
  const std::string text = fio_table(lines, "fio-9");
  EXPECT_NE(text.find("fio-9"), std::string::npos);
  EXPECT_NE(text.find("2.000 (1.500-2.500)"), std::string::npos) << text;
  EXPECT_NE(text.find("direct         cold  n/a: no\n"), std::string::npos) << text;
}

}  // namespace
}  // namespace feedrace::diagnose
