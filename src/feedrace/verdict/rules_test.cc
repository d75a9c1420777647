// SPDX-License-Identifier: Apache-2.0
// A table of situations: what was seen, and what must be said about it.

#include "feedrace/verdict/rules.h"

#include <functional>
#include <set>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "feedrace/verdict/limiting_stage.h"

namespace feedrace::verdict {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

/// A loader of shards on two cores whose consumer waits half of the time, with nothing else to say.
Facts plain() {
  Facts facts;
  facts.batches = 100;
  facts.images_per_second = 1000;
  facts.batch_size = 64;
  facts.prefetch_factor = 3;
  facts.queue_depth = 32;
  facts.usable_cores = 2;
  facts.wait_share = 0.5;
  facts.handing_share = 0.01;
  facts.io = StageFacts{1, 0.5, 0.1, 2000, 10000};
  facts.decode = StageFacts{2, 0.5, 0.98, 1000, 1000};
  facts.mean_read_bytes = 2e6;
  facts.read_p50_ms = 10;
  facts.read_p99_ms = 40;
  facts.read_mean_ms = 12;
  facts.reads_per_second = 100;
  facts.read_bytes_per_second = 2e8;
  facts.cached_share = 0.0;
  facts.device_name = "nvme0n1";
  facts.host.seconds = 10;
  facts.host.own_cpu_cores = 1;
  facts.host.other_cpu_cores = 0.0;
  facts.host.cpu_busy_share = 0.5;
  facts.host.cpu_count = 2;
  facts.host.disk = host::HostRates::Disk{"nvme0n1", 100, 2e8, 2e6, 10, 20, 0.9};
  return facts;
}

void busy_decode(Facts& facts) {
  facts.decode->busy_share = 0.98;
  facts.io->busy_share = 0.1;
  facts.host.own_cpu_cores = 2;
}

struct Case {
  const char* name;
  Limit limit;
  std::function<void(Facts&)> change;
  const char* begins;
  std::vector<std::string> says;
};

std::vector<Case> cases() {
  return {
      {"NoBatch", Limit::kNothingYet, [](Facts& f) { f = {}; }, "no verdict yet", {}},
      {"FewBatches",
       Limit::kTooShort,
       [](Facts& f) { f.batches = 4; },
       "the run is too short to tell what limits: after 4 batches, the consumer waited 50 %",
       {"ask again after 5"}},
      {"Consumer",
       Limit::kConsumer,
       [](Facts& f) { f.wait_share = 0.02; },
       "the consumer limits: the consumer waited 2 % of the time",
       {"nothing to do here"}},
      {"Gpu",
       Limit::kConsumer,
       [](Facts& f) {
         f.wait_share = 0.02;
         f.gpu_busy_share = 0.98;
       },
       "the GPU limits",
       {"the GPU was 98 % busy", "nothing to do here"}},
      // Symptom 1 of the article: GPU utilisation swings, as decoding on the CPU can't keep up.
      {"DecodeSwings",
       Limit::kDecode,
       [](Facts& f) {
         busy_decode(f);
         f.least_wait_share = 0.05;
         f.most_wait_share = 0.6;
       },
       "decode limits: the consumer waited 50 % of the time, 2 decode threads were 98 % busy",
       {"waiting swings between 5 % and 60 %", "decoding on a GPU"}},
      {"OneThreadOfTwoCores",
       Limit::kDecode,
       [](Facts& f) {
         busy_decode(f);
         f.decode->thread_count = 1;
         f.images_per_second = 980;
         f.host.own_cpu_cores = 1.05;
         f.wait_share = 0.9;
       },
       "decode limits",
       {"1 decode thread was", "2 decode threads would give about 1,900 (num_threads=2)"}},
      {"CropIndex",
       Limit::kDecode,
       [](Facts& f) {
         busy_decode(f);
         f.images_per_second = 1900;
         f.may_use_crop_index = true;
         f.wait_share = 0.99;
         f.ceilings.decode = 500;
         f.ceilings.decode_indexed = 750;
         f.ceilings.storage = 9400;
       },
       "decode limits",
       {"storage alone could give 9,400 images/s", "a crop index would give about 2,800"}},
      // Symptom 2: far below the device's rating, as files are small.
      {"SmallFiles",
       Limit::kSmallFiles,
       [](Facts& f) {
         f.are_files = true;
         f.mean_read_bytes = 20000;
         f.ceilings.packed = 1600;
         f.wait_share = 0.9;
       },
       "small files limit",
       {"of 20.0 kB on average", "shards would give about 1,600 (feedrace pack PATH DIR)"}},
      // Symptom 3: slower the more processes read from one drive.
      {"SharedDevice",
       Limit::kSharedDevice,
       [](Facts& f) { f.host.disk->bytes_a_second = 8e8; },
       "a shared device limits",
       {"others read 75 % of what nvme0n1 gave", "shared_cache"}},
      // Symptom 4: a stall when training starts.
      {"ColdStart",
       Limit::kColdStart,
       [](Facts& f) {
         f.early_seconds = 12;
         f.early_part = 0.3;
         f.early_wait_share = 0.8;
         f.late_wait_share = 0.02;
         f.late_images_per_second = 3000;
       },
       "a cold start limits, and nothing any more",
       {"80 % of the first 12.0 s", "feedrace warm PATH"}},
      {"ColdStartThenLess",
       Limit::kColdStart,
       [](Facts& f) {
         f.early_seconds = 12;
         f.early_part = 0.3;
         f.early_wait_share = 0.8;
         f.late_wait_share = 0.2;
         f.late_images_per_second = 3000;
       },
       "a cold start limits more than anything since",
       {"20 % of the last part"}},
      // Symptom 5: GDS is slow, as the GPU is not under the drive's PCIe root.
      {"FarGpu",
       Limit::kGpuTopology,
       [](Facts& f) {
         f.is_direct = true;
         f.is_gpu_far = true;
         f.gpu_path = "across sockets";
       },
       "the way from the drive to the GPU limits",
       {"GPU and drive are connected across sockets", "PCIe switch", "feedrace doctor PATH"}},
      {"CompatMode",
       Limit::kGpuTopology,
       [](Facts& f) {
         f.is_direct = true;
         f.compat_share = 1;
       },
       "the way from the drive to the GPU limits",
       {"100 % of the bytes went through host memory"}},
      {"BatchOverhead",
       Limit::kBatchOverhead,
       [](Facts& f) {
         f.batch_size = 1;
         f.wait_share = 0.05;
         f.handing_share = 0.5;
       },
       "handing over batches limits",
       {"batches of 1 take 50 % of the consumer's time",
        "larger batches would give about 1,800 (batch_size=8)"}},
      {"ThreadToThread",
       Limit::kBatchOverhead,
       [](Facts& f) {
         f.batch_size = 1;
         f.images_per_second = 8000;
         f.wait_share = 0.9;
         f.io->busy_share = 0.05;
         f.decode->busy_share = 0.02;
       },
       "handing over batches limits: the consumer waited 90 % of the time",
       {"8,000 batches/s of 1 went from thread to thread", "larger batches (batch_size=8)"}},
      // As seen of batches of one on two cores.
      {"ThreadToThreadOnSharedCores",
       Limit::kBatchOverhead,
       [](Facts& f) {
         f.batch_size = 1;
         f.images_per_second = 25'000;
         f.wait_share = 0.44;
         f.io->busy_share = 0.05;
         f.decode->busy_share = 0.12;
         f.decode->on_core_share = 0.74;
       },
       "handing over batches limits: the consumer waited 44 % of the time",
       {"25,000 batches/s of 1 went from thread to thread"}},
      {"MemoryCopies",
       Limit::kMemoryCopies,
       [](Facts& f) {
         f.cached_share = 1;
         f.read_p50_ms = 0.1;
       },
       "reading out of memory limits",
       {"100 % of the bytes came out of the page cache", "feedrace bench io PATH"}},
      {"MemoryCopiesOfFiles",
       Limit::kMemoryCopies,
       [](Facts& f) {
         f.cached_share = 1;
         f.read_p50_ms = 0.1;
         f.are_files = true;
       },
       "reading out of memory limits",
       {"feedrace pack PATH DIR"}},
      {"MemoryCopiesWhileOthersRead",
       Limit::kMemoryCopies,
       [](Facts& f) {
         f.cached_share = 1;
         f.read_p50_ms = 30;
         f.read_bytes_per_second = 4e9;
         f.host.disk->bytes_a_second = 1e6;
       },
       "reading out of memory limits",
       {"no disk is waited for"}},
      {"MemoryPressure",
       Limit::kMemoryPressure,
       [](Facts& f) { f.host.memory_pressure = 0.4; },
       "memory limits",
       {"40 % of the time", "memory_limit"}},
      {"Swap",
       Limit::kSwap,
       [](Facts& f) {
         f.host.swapped_in_a_second = 900;
         f.host.memory_pressure = 0.4;
       },
       "swapping limits",
       {"900 pages/s"}},
      {"Oversubscribed",
       Limit::kOversubscribed,
       [](Facts& f) {
         busy_decode(f);
         f.decode->thread_count = 8;
         f.decode->on_core_share = 0.25;
       },
       "cores limit",
       {"8 decode threads", "on a core only 25 %", "num_threads=2"}},
      {"TrainingLoopTakesTheCores",
       Limit::kOversubscribed,
       [](Facts& f) {
         busy_decode(f);
         f.decode->on_core_share = 0.6;
       },
       "cores limit",
       {"torch.set_num_threads"}},
      {"Neighbour",
       Limit::kNeighbour,
       [](Facts& f) {
         busy_decode(f);
         f.decode->on_core_share = 0.5;
         f.host.other_cpu_cores = 1;
         f.host.own_cpu_cores = 1;
       },
       "other processes limit",
       {"other processes used 1.0 of 2 cores", "cores of its own"}},
      {"OversubscribedAndStarved",
       Limit::kOversubscribed,
       [](Facts& f) {
         f.io->busy_share = 0.01;
         f.decode->thread_count = 16;
         f.decode->on_core_share = 0.02;
       },
       "cores limit",
       {"16 decode threads were 50 % busy", "num_threads=2"}},
      {"Quota",
       Limit::kQuota,
       [](Facts& f) {
         busy_decode(f);
         f.decode->on_core_share = 0.3;
         f.usable_cores = 0.5;
         f.host.throttled_period_share = 0.9;
       },
       "the control group's CPU quota limits",
       {"90 % of its periods", "may use 0.5 cores", "cpu.max"}},
      {"Steal",
       Limit::kSteal,
       [](Facts& f) {
         busy_decode(f);
         f.host.steal_share = 0.3;
       },
       "the hypervisor limits",
       {"30 % of the cores' time"}},
      {"BatchOverheadOfAReaderThatIsWokenOften",
       Limit::kBatchOverhead,
       [](Facts& f) {
         f.batch_size = 1;
         f.images_per_second = 23'000;
         f.cached_share = 1;
         f.wait_share = 0.43;
         f.io->busy_share = 0.33;
         f.decode->busy_share = 0.14;
       },
       "handing over batches limits",
       {"23,000 batches/s of 1 went from thread to thread", "batch_size=8"}},
      {"SlowSamples",
       Limit::kSlowSamples,
       [](Facts& f) { f.io->busy_share = 0.01; },
       "a few slow samples limit",
       {"reads were hardly waited for"}},
      {"BadSamples",
       Limit::kBadSamples,
       [](Facts& f) { f.bad_share = 0.97; },
       "most samples are bad",
       {"97 % of them were replaced or left blank", "feedrace verify PATH --bad FILE"}},
      {"SomeBadSamples",
       Limit::kDecode,
       [](Facts& f) {
         busy_decode(f);
         f.bad_share = 0.03;
       },
       "decode limits",
       {"3 % of the samples were bad"}},
      {"GpuStage",
       Limit::kGpuStage,
       [](Facts& f) { f.device = StageFacts{1, 0.9, 0.3, 0, 0}; },
       "the GPU's stage limits",
       {"90 % busy"}},
      {"Storage",
       Limit::kStorage,
       [](Facts& f) { f.io->busy_share = 0.97; },
       "storage limits",
       {"a read took 10.0 ms in the middle and 40.0 ms", "in 100 requests/s of 10.0 ms"}},
      {"ShortWindow",
       Limit::kStorage,
       [](Facts& f) {
         f.io->busy_share = 0.97;
         f.prefetch_factor = 1;
         f.batch_size = 8;
         f.images_per_second = 400;
         f.reads_per_second = 400;
         f.read_mean_ms = 20;
         f.wait_share = 0.99;
       },
       "storage limits",
       {"decoding further ahead (prefetch_factor=2)"}},
  };
}

TEST(Rules, NameWhatLimitsAndWhatToDo) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    Facts facts = plain();
    one.change(facts);
    const Verdict verdict = judge(facts);
    EXPECT_STREQ(to_string(verdict.limit), to_string(one.limit));
    const std::string text = verdict.to_text();
    EXPECT_THAT(text, StartsWith(one.begins));
    for (const std::string& said : one.says) EXPECT_THAT(text, HasSubstr(said));
    EXPECT_THAT(text, Not(HasSubstr("\n")));
  }
}

TEST(Rules, EveryLimitHasACase) {
  std::set<Limit> seen;
  for (const Case& one : cases()) seen.insert(one.limit);
  for (std::uint8_t i = 0; i < kLimitCount; ++i) {
    EXPECT_TRUE(seen.count(static_cast<Limit>(i))) << to_string(static_cast<Limit>(i));
  }
}

TEST(Rules, WhatLimitsHasARemedyUnlessThereIsNothingToDo) {
  for (const Case& one : cases()) {
    SCOPED_TRACE(one.name);
    Facts facts = plain();
    one.change(facts);
    const bool is_settled = one.limit == Limit::kNothingYet || one.limit == Limit::kTooShort ||
                            one.limit == Limit::kConsumer;
    EXPECT_EQ(judge(facts).remedies.empty(), is_settled);
  }
}

TEST(Rules, FiguresFromElsewhereWithoutStagesAreEnough) {
  // The cases of kind "diagnosis": what tools of the host show, and batches that are ready.
  Facts facts;
  facts.batches = 100;
  facts.prefetch_factor = 3;
  facts.gpu_busy_share = 0.45;
  facts.ready_batches = 3.0;
  facts.host.cpu_busy_share = 0.3;
  facts.cached_share = 0.9;
  facts.host.disk = host::HostRates::Disk{"nvme0n1", 10, 1e6, 1e5, 1, 0.1, 0.05};
  EXPECT_THAT(judge(facts).to_text(),
              AllOf(StartsWith("the consumer limits"), HasSubstr("batches wait for the training")));
  facts.gpu_busy_share = 0.98;
  facts.ready_batches = 2.9;
  facts.host.cpu_busy_share = 0.4;
  EXPECT_THAT(judge(facts).to_text(),
              AllOf(StartsWith("the GPU limits"), HasSubstr("nothing to do here")));
  facts.gpu_busy_share = 0.3;
  facts.ready_batches = 0.1;
  facts.host.cpu_busy_share = 0.25;
  facts.cached_share = 0.02;
  facts.read_bytes_per_second = 2e9;
  facts.host.disk = host::HostRates::Disk{"nvme0n1", 16000, 2e9, 131072, 2, 40, 0.99};
  EXPECT_EQ(judge(facts).limit, Limit::kStorage);
}

TEST(Rules, AShortStartIsNone) {
  Facts facts = plain();
  facts.wait_share = 0.01;
  facts.early_wait_share = 1;
  facts.late_wait_share = 0.01;
  facts.late_images_per_second = 1000;
  facts.early_seconds = 0.2;
  facts.early_part = 0.1;
  EXPECT_EQ(judge(facts).limit, Limit::kConsumer);
  facts.early_seconds = 12;  // An hour ago.
  facts.early_part = 0.003;
  EXPECT_EQ(judge(facts).limit, Limit::kConsumer);
  facts.early_part = 0.1;
  EXPECT_EQ(judge(facts).limit, Limit::kColdStart);
}

TEST(Rules, MoreReadsInFlightHelpNoDeviceWhoseReadsWaitInLine) {
  Facts facts = plain();
  facts.io->busy_share = 0.97;
  facts.prefetch_factor = 1;
  facts.batch_size = 8;
  facts.images_per_second = 400;
  facts.reads_per_second = 400;
  facts.read_mean_ms = 20;
  facts.read_least_ms = 8;
  facts.wait_share = 0.99;
  EXPECT_THAT(judge(facts).to_text(), HasSubstr("prefetch_factor=2"));
  facts.read_least_ms = 3;
  EXPECT_THAT(judge(facts).to_text(),
              AllOf(HasSubstr("the quickest 3.0 ms: reads seem to wait in line"),
                    Not(HasSubstr("prefetch_factor"))));
}

/// Reads of 20 ms, eight at a time: a window of one batch of eight.
Facts short_window() {
  Facts facts = plain();
  facts.io->busy_share = 0.97;
  facts.prefetch_factor = 1;
  facts.batch_size = 8;
  facts.images_per_second = 400;
  facts.reads_per_second = 400;
  facts.read_mean_ms = 20;
  facts.wait_share = 0.99;
  return facts;
}

std::optional<double> rate_of_larger_prefetch(const Facts& facts) {
  for (const Remedy& remedy : judge(facts).remedies) {
    if (remedy.command == "prefetch_factor=2") return remedy.images_per_second;
  }
  ADD_FAILURE() << "not advised";
  return std::nullopt;
}

TEST(Rules, ALargerPrefetchIsPromisedWhatStorageWasMeasuredToGive) {
  Facts facts = short_window();
  EXPECT_EQ(rate_of_larger_prefetch(facts), std::nullopt);
  facts.ceilings.storage = 3000;
  EXPECT_DOUBLE_EQ(*rate_of_larger_prefetch(facts), 800);
  facts.ceilings.storage = 500;
  EXPECT_DOUBLE_EQ(*rate_of_larger_prefetch(facts), 500);
}

TEST(Rules, ALargerPrefetchIsNotAdvisedWhereStorageHasNoMore) {
  Facts facts = short_window();
  facts.ceilings.storage = 405;
  EXPECT_THAT(judge(facts).to_text(), Not(HasSubstr("prefetch_factor")));
}

TEST(Rules, NothingIsPromisedBeyondWhatTheConsumerTakes) {
  Facts facts = plain();
  busy_decode(facts);
  facts.decode->thread_count = 1;
  facts.usable_cores = 16;
  facts.wait_share = 0.5;  // So the consumer takes 2,000 at most.
  for (const Remedy& remedy : judge(facts).remedies) {
    EXPECT_LE(remedy.images_per_second.value_or(0), 2000);
  }
}

TEST(Verdict, IsJson) {
  Facts facts = plain();
  busy_decode(facts);
  const std::string json = judge(facts).to_json();
  EXPECT_THAT(json, AllOf(StartsWith("{\"limit\":\"decode\""), HasSubstr("\"remedies\":[{")));
  EXPECT_THAT(json, Not(HasSubstr("\n")));
}

TEST(Rules, ShardsAreNotToBePackedAgain) {
  Facts facts = plain();
  facts.cached_share = 1;
  EXPECT_THAT(judge(facts).to_text(), Not(HasSubstr("feedrace pack")));
}

TEST(Rules, WhereNothingIsDecodedDecodingHasNoCeiling) {
  Facts facts = plain();
  facts.cached_share = 1;
  facts.reads_only = true;
  for (const Ceiling& one : judge(facts).ceilings) EXPECT_NE(one.part, "decode");
}

TEST(LimitingStage, IsThatOfTheFirstPartThatCanNotKeepUp) {
  EXPECT_STREQ(limiting_stage(Limit::kConsumer), "consumer");
  EXPECT_STREQ(limiting_stage(Limit::kNeighbour), "decode");
  EXPECT_STREQ(limiting_stage(Limit::kGpuStage), "device");
  EXPECT_STREQ(limiting_stage(Limit::kSmallFiles), "io");
  EXPECT_EQ(limiting_stage(Limit::kSwap), nullptr) << "the whole machine";
}

}  // namespace
}  // namespace feedrace::verdict
