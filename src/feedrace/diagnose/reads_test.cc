// SPDX-License-Identifier: Apache-2.0
// Both ways to read a job: what they count, and that wrong bytes and failed reads are found.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "feedrace/diagnose/backend_reads.h"
#include "feedrace/diagnose/io_job.h"
#include "feedrace/diagnose/io_paths.h"
#include "feedrace/diagnose/page_cache.h"
#include "feedrace/diagnose/plain_reads.h"
#include "feedrace/storage/backends.h"
#include "feedrace/testing/faulty_backend.h"
#include "feedrace/testing/null_backend.h"
#include "feedrace/testing/temp_dir.h"

namespace feedrace::diagnose {
namespace {

constexpr std::size_t kBlockBytes = 4096;
constexpr std::uint64_t kBlocks = 100;

class Reads : public ::testing::Test {
 protected:
  Reads() {
    std::string content;
    for (std::size_t i = 0; i < kBlocks * kBlockBytes; ++i) {
      content += static_cast<char>(i * 31 + i / kBlockBytes);
    }
    job_.files = {{folder_.write("a.bin", content), kBlocks}};
    job_.block_bytes = kBlockBytes;
    job_.queue_depth = 8;
    job_.thread_count = 3;
  }

  std::unique_ptr<storage::Backend> backend() const {
    return storage::simple_backend(job_.queue_depth);
  }
  /// One pass, or as many blocks as `count`.
  static RunLimits once(std::uint64_t count = kBlocks) { return {60, count}; }

  testing::TempDir folder_;
  IoJob job_;
};

TEST_F(Reads, PlainOnesCountBlocksCopiesAndCalls) {
  for (const auto& [how, copies, calls] :
       {std::tuple(PlainRead::kReadAndCopy, 2U, kBlocks), {PlainRead::kMapped, 1U, 0U}}) {
    const auto reads = make_plain_reads(how, job_);
    ASSERT_TRUE(reads) << reads.error().message;
    const BlockOrder order(job_);
    EXPECT_TRUE((*reads)->check(order, kBlocks));
    const auto counts = (*reads)->read(order, once());
    ASSERT_TRUE(counts) << counts.error().message;
    EXPECT_EQ(counts->reads, kBlocks);
    EXPECT_EQ(counts->bytes, kBlocks * kBlockBytes);
    EXPECT_EQ(counts->copied_bytes, copies * counts->bytes);
    EXPECT_EQ(counts->system_calls, calls);
    EXPECT_EQ(counts->latency.count(), kBlocks);
  }
}

TEST_F(Reads, OfABackendCountBlocksCopiesAndThePathTaken) {
  const auto reads = make_backend_reads(backend(), job_, /*registered=*/false);
  ASSERT_TRUE(reads) << reads.error().message;
  const BlockOrder order(job_);
  EXPECT_TRUE((*reads)->check(order, kBlocks));
  for (const std::uint64_t count : {std::uint64_t{3}, kBlocks, 5 * kBlocks + 1}) {
    const auto counts = (*reads)->read(order, once(count));
    ASSERT_TRUE(counts) << counts.error().message;
    EXPECT_EQ(counts->reads, count);
    EXPECT_EQ(counts->copied_bytes, count * kBlockBytes);
    EXPECT_EQ(counts->bytes_by_path[static_cast<std::size_t>(Path::kPageCache)],
              count * kBlockBytes);
    EXPECT_EQ(counts->latency.count(), count);
  }
}

TEST_F(Reads, EndWhenTheTimeIsOver) {
  const BlockOrder order(job_);
  const RunLimits limits{0, ~std::uint64_t{0}};
  const auto plain = make_plain_reads(PlainRead::kMapped, job_);
  ASSERT_TRUE(plain);
  const auto none = (*plain)->read(order, limits);
  ASSERT_TRUE(none);
  EXPECT_EQ(none->reads, 0U);
  const auto reads = make_backend_reads(backend(), job_, false);
  ASSERT_TRUE(reads);
  const auto counts = (*reads)->read(order, limits);
  ASSERT_TRUE(counts);
  EXPECT_LE(counts->reads, 2 * job_.queue_depth);
}

TEST_F(Reads, FindABackendThatGivesOtherBytes) {
  auto null = std::make_unique<testing::NullBackend>(kBlocks * kBlockBytes, job_.queue_depth);
  const auto reads = make_backend_reads(std::move(null), job_, false);
  ASSERT_TRUE(reads) << reads.error().message;
  const auto checked = (*reads)->check(BlockOrder(job_), kBlocks);
  ASSERT_FALSE(checked);
  EXPECT_EQ(checked.error().code, ErrorCode::kCorruptData);
  EXPECT_NE(checked.error().message.find("a.bin"), std::string::npos);
}

TEST_F(Reads, EndInOrderWhenReadsFail) {
  testing::FaultPlan plan;
  plan.error_share = 0.2;
  auto faulty = std::make_unique<testing::FaultyBackend>(backend(), plan);
  const auto reads = make_backend_reads(std::move(faulty), job_, false);
  ASSERT_TRUE(reads) << reads.error().message;
  const BlockOrder order(job_);
  const auto counts = (*reads)->read(order, once());
  ASSERT_FALSE(counts);
  EXPECT_EQ(counts.error().code, ErrorCode::kIo);
  EXPECT_FALSE((*reads)->check(order, kBlocks));
}

TEST_F(Reads, OfAFileThatBecameShorterAreAFailure) {
  job_.files[0].block_count = kBlocks + 1;
  const BlockOrder order(job_);
  const auto plain = make_plain_reads(PlainRead::kReadAndCopy, job_);
  ASSERT_TRUE(plain);
  EXPECT_FALSE((*plain)->read(order, once(kBlocks + 1)));
  const auto reads = make_backend_reads(backend(), job_, false);
  ASSERT_TRUE(reads);
  const auto counts = (*reads)->read(order, once(kBlocks + 1));
  ASSERT_FALSE(counts);
  EXPECT_NE(counts.error().message.find("shorter"), std::string::npos);
}

TEST_F(Reads, OfAMissingFileAreRefused) {
  job_.files[0].path += ".gone";
  const auto plain = make_plain_reads(PlainRead::kMapped, job_);
  ASSERT_FALSE(plain);
  EXPECT_EQ(plain.error().code, ErrorCode::kNotFound);
  const auto reads = make_backend_reads(backend(), job_, false);
  ASSERT_FALSE(reads);
  EXPECT_EQ(reads.error().code, ErrorCode::kNotFound);
}

TEST_F(Reads, FindThePageCacheAsItWasMade) {
  ASSERT_TRUE(fill_pages(job_));
  const auto full = cached_pages(job_);
  if (!full) GTEST_SKIP() << full.error().message;
  EXPECT_EQ(*full, kBlocks);
  if (const auto dropped = drop_pages(job_); !dropped) GTEST_SKIP() << dropped.error().message;
  EXPECT_LT(*cached_pages(job_), kBlocks);
}

TEST_F(Reads, OfEveryPathAreMeasuredOrSayWhyNot) {
  job_.seconds = 0.01;
  for (const IoPath& path : io_paths()) {
    for (const bool is_cold : {true, false}) {
      const IoRow row = measure_row(path, job_, is_cold, /*checks=*/true);
      if (!row.reason.empty()) {
        EXPECT_EQ(row.code, ErrorCode::kUnsupported) << path.name << ": " << row.reason;
        EXPECT_EQ(row.reason.find('\n'), std::string::npos) << path.name;
        continue;
      }
      const IoFigures figures = figures_of(row);
      EXPECT_GT(figures.gb_per_second, 0) << path.name;
      EXPECT_GT(figures.reads_per_second, 0) << path.name;
      EXPECT_GE(figures.max_us, figures.p50_us) << path.name;
      const double copies = path.name == "read+copy" ? 2 : path.takes == Path::kDirect ? 0 : 1;
      EXPECT_EQ(figures.copies_per_byte, copies) << path.name;
      EXPECT_TRUE(row.pages_left || !row.pages_reason.empty()) << path.name;
    }
  }
}

TEST(IoFigures, OfRoundsAreMediansAndTheWorstLatency) {
  std::vector<IoFigures> rounds(3);
  const double rates[] = {3, 1, 2};
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    rounds[i].gb_per_second = rates[i];
    rounds[i].max_us = rates[i];
    rounds[i].pages_left = rates[i];
  }
  const IoFigures median = median_of(rounds);
  EXPECT_EQ(median.gb_per_second, 2);
  EXPECT_EQ(median.max_us, 3);
  EXPECT_EQ(median.pages_left, 3);
  EXPECT_EQ(quantile_of({4, 1}, 0.5), 2.5);
  EXPECT_EQ(quantile_of({7}, 0.25), 7);
}

}  // namespace
}  // namespace feedrace::diagnose
