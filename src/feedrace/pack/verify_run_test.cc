// SPDX-License-Identifier: Apache-2.0
#include "feedrace/pack/verify_run.h"

#include <atomic>
#include <stdexcept>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace feedrace::pack {
namespace {

/// Says in each piece which it is.
class TellingUnit : public VerifyUnit {
 public:
  TellingUnit(std::size_t number, std::size_t pieces) : number_(number), pieces_(pieces) {}
  std::size_t piece_count() const noexcept override { return pieces_; }
  std::uint64_t samples_of_piece(std::size_t) const noexcept override { return 10; }
  void check(std::size_t piece, VerifyThread& thread, PieceFindings& findings) const override {
    ++thread.totals.decoded_count;
    BadSample bad;
    bad.offset_bytes = number_ * 100 + piece;
    findings.bad.push_back(bad);
  }

 private:
  const std::size_t number_;
  const std::size_t pieces_;
};

struct Course {
  std::vector<std::uint64_t> taken;
  std::atomic<int> opened = 0;

  VerifyPlan plan(std::size_t units) {
    VerifyPlan plan;
    plan.unit_weights.assign(units, 1);
    plan.open = [this](std::size_t unit, VerifyThread& thread) {
      ++opened;
      ++thread.totals.sample_count;
      OpenedUnit result;
      if (unit % 3 != 2) result.unit = std::make_unique<TellingUnit>(unit, unit % 5);
      return result;
    };
    plan.take = [this](std::size_t unit, OpenedUnit&, std::vector<PieceFindings>& pieces) {
      taken.push_back(unit * 100 + 99);
      for (const PieceFindings& piece : pieces) taken.push_back(piece.bad.at(0).offset_bytes);
    };
    return plan;
  }
};

TEST(VerifyRun, GivesUnitsAndPiecesInOrderWhateverTheNumberOfThreads) {
  Course alone;
  VerifyRun(alone.plan(60), 1, {}).run({});
  ASSERT_EQ(alone.opened, 60);
  Course many;
  const VerifyTotals totals = VerifyRun(many.plan(60), 7, {}).run({});
  EXPECT_EQ(many.taken, alone.taken);
  EXPECT_EQ(totals.sample_count, 60u);
  EXPECT_EQ(totals.decoded_count + 60, alone.taken.size());
}

TEST(VerifyRun, EndsWithWhatAThreadThrows) {
  Course course;
  VerifyPlan plan = course.plan(1000);
  plan.open = [](std::size_t unit, VerifyThread&) -> OpenedUnit {
    if (unit == 11) throw std::runtime_error("unit 11");
    return {};
  };
  EXPECT_THROW(VerifyRun(std::move(plan), 4, {}).run({}), std::runtime_error);
}

TEST(VerifyRun, EndsWithWhatTheTakerThrows) {
  Course course;
  VerifyPlan plan = course.plan(1000);
  plan.take = [](std::size_t unit, OpenedUnit&, std::vector<PieceFindings>&) {
    if (unit == 5) throw std::runtime_error("disk full");
  };
  EXPECT_THROW(VerifyRun(std::move(plan), 4, {}).run({}), std::runtime_error);
}

TEST(VerifyRun, EndsWithWhatTheProgressThrows) {
  Course course;
  const auto progress = [](std::uint64_t, double share) {
    EXPECT_LE(share, 1);
    throw Error(ErrorCode::kCancelled, "enough");
  };
  EXPECT_THROW(VerifyRun(course.plan(100'000), 2, {}).run(progress), Error);
}

TEST(VerifyRun, ASetWithoutUnitsIsDone) {
  Course course;
  EXPECT_EQ(VerifyRun(course.plan(0), 3, {}).run({}).sample_count, 0u);
}

}  // namespace
}  // namespace feedrace::pack
