#include "worker/step_help.h"

#include <algorithm>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr absl::Duration kStep = absl::Seconds(1);

// The StepHelp objects of workers 0, 1, ..., whose ranks are their indices, with three positions in
// a step.
class StepHelpTest : public testing::Test {
 protected:
  StepHelp::Place Place(uint64_t rank) {
    return {rank, 3, absl::MakeConstSpan(workers_).first(num_workers_)};
  }

  // Steps in which nobody is late.
  void UsualSteps(StepHelp* help, uint64_t rank, int count) {
    for (int i = 0; i < count; ++i) {
      help->StartStep(now_, step_, Place(rank), true);
      now_ += 0.8 * kStep;
      help->OnIdle(now_);
      now_ += 0.2 * kStep;
      ++step_;
    }
    help->StartStep(now_, step_, Place(rank), true);
  }

  std::vector<uint32_t> Covered(const StepHelp& help) {
    std::vector<uint32_t> positions;
    for (const uint32_t position : {0, 1, 2}) {
      if (help.Covers(position)) positions.push_back(position);
    }
    return positions;
  }

  std::optional<uint32_t> Consider(StepHelp* help, uint64_t rank,
                                   const std::vector<uint32_t>& missing) {
    return help->Consider(now_, Place(rank), missing, [this](uint32_t position) {
      return std::count(taken_.begin(), taken_.end(), position) == 0;
    });
  }

  absl::Time now_ = absl::UnixEpoch();
  uint64_t step_ = 0;
  size_t num_workers_ = 4;
  const std::vector<uint32_t> workers_ = {0, 1, 2, 3, 4};
  std::vector<uint32_t> taken_;  // Not to be taken over.
};

TEST_F(StepHelpTest, ASurplusWorkerCoversAnotherPositionInEachStepUntilItIsFirst) {
  StepHelp help;
  for (const uint32_t position : {0, 1, 2, 0}) {
    UsualSteps(&help, 3, 0);
    EXPECT_THAT(Covered(help), testing::ElementsAre(position));
    help.OnDelivered(step_, position, /*worker=*/position, /*was_first=*/false);
    ++step_;
  }
  help.OnDelivered(step_, 1, /*worker=*/1, /*was_first=*/true);
  UsualSteps(&help, 3, 2);
  EXPECT_THAT(Covered(help), testing::ElementsAre(1)) << "worker/1 is slow";
  help.OnDelivered(step_, 1, /*worker=*/1, /*was_first=*/false);
  UsualSteps(&help, 3, 3);
  EXPECT_THAT(Covered(help), testing::ElementsAre((step_ + 3) % 3)) << "it is not slow any more";
}

TEST_F(StepHelpTest, OtherWorkersCoverNothingByThemselves) {
  StepHelp help;
  UsualSteps(&help, 1, 5);
  EXPECT_THAT(Covered(help), testing::IsEmpty());
}

TEST_F(StepHelpTest, ASurplusWorkerTakesOverWhatIsMissingAfterHalfAStep) {
  StepHelp help;
  UsualSteps(&help, 3, 3);
  const uint32_t covered = Covered(help)[0];
  const uint32_t missing = (covered + 1) % 3;
  now_ += 0.8 * kStep;
  help.OnIdle(now_);
  now_ += 0.4 * kStep;
  EXPECT_EQ(Consider(&help, 3, {missing}), std::nullopt);
  now_ += 0.1 * kStep;
  EXPECT_EQ(Consider(&help, 3, {covered}), std::nullopt) << "it is computed here already";
  EXPECT_EQ(Consider(&help, 3, {covered, missing}), missing);
  EXPECT_TRUE(help.Covers(missing));
}

TEST_F(StepHelpTest, SurplusWorkersSpreadOverWhatIsMissing) {
  num_workers_ = 5;
  std::vector<uint32_t> taken;
  for (const uint64_t rank : {3, 4}) {
    StepHelp help;
    step_ = 9;  // Rank 3 covers position 0, rank 4 covers 1.
    UsualSteps(&help, rank, 3);
    help.OnIdle(now_);
    now_ += kStep;
    const std::optional<uint32_t> position = Consider(&help, rank, {0, 1, 2});
    ASSERT_TRUE(position.has_value());
    taken.push_back(*position);
  }
  EXPECT_NE(taken[0], taken[1]);
}

TEST_F(StepHelpTest, TheOthersFollowOneAfterTheOther) {
  num_workers_ = 3;
  for (const uint64_t rank : {1, 2}) {  // Worker 0 is slow.
    StepHelp help;
    UsualSteps(&help, rank, 3);
    now_ += 0.8 * kStep;
    help.OnIdle(now_);
    now_ += 1.9 * static_cast<double>(rank) * kStep;
    EXPECT_EQ(Consider(&help, rank, {0}), std::nullopt) << rank;
    now_ += 0.2 * static_cast<double>(rank) * kStep;
    EXPECT_EQ(Consider(&help, rank, {0}), 0u) << rank;
    EXPECT_EQ(Consider(&help, rank, {0}), std::nullopt) << "it covers that already";
  }
}

TEST_F(StepHelpTest, PositionsThatMayNotBeTakenAreNotTaken) {
  num_workers_ = 3;
  taken_ = {0};
  StepHelp help;
  UsualSteps(&help, 1, 3);
  help.OnIdle(now_);
  now_ += absl::Hours(1);
  EXPECT_EQ(Consider(&help, 1, {0}), std::nullopt);
  EXPECT_EQ(Consider(&help, 1, {0, 2}), 2u);
  help.GiveUp(2);
  help.OnIdle(now_);
  now_ += absl::Hours(1);
  EXPECT_EQ(Consider(&help, 1, {0, 2}), std::nullopt) << "it was not taken before";
}

TEST_F(StepHelpTest, BeforeAStepWasMeasuredNothingIsTakenOver) {
  StepHelp help;
  help.StartStep(now_, 0, Place(3), true);
  EXPECT_EQ(help.Park(now_, Place(3)), StepHelp::kLongestPark);
  help.OnIdle(now_);
  now_ += absl::Hours(1);
  EXPECT_EQ(Consider(&help, 3, {1, 2}), std::nullopt);
}

TEST_F(StepHelpTest, ASlowWorkerThatIsHelpedDoesNotBecomeTheMeasure) {
  num_workers_ = 3;
  StepHelp help;
  UsualSteps(&help, 1, 3);
  for (int i = 0; i < 100; ++i) {
    now_ += 0.8 * kStep;
    help.OnIdle(now_);
    now_ += 2 * kStep;
    ASSERT_EQ(Consider(&help, 1, {0}), 0u) << i;
    now_ += kStep;
    // The answer to the push and the new values may come in any order.
    const bool is_answered = i % 2 == 0;
    if (is_answered) help.OnDelivered(step_, 0, /*worker=*/0, /*was_first=*/true);
    help.StartStep(now_, step_ + 1, Place(1), true);
    if (!is_answered) help.OnDelivered(step_, 0, /*worker=*/0, /*was_first=*/true);
    ++step_;
  }
}

TEST_F(StepHelpTest, ARunThatBecomesSlowerForAllIsHelpedLessAndLess) {
  num_workers_ = 3;
  for (const bool is_answered : {true, false}) {  // This is before the next step starts.
    StepHelp help;
    UsualSteps(&help, 1, 3);
    int helps = 0;
    for (int i = 0; i < 100; ++i) {
      now_ += 0.1 * kStep;
      help.OnIdle(now_);
      now_ += 5 * kStep;
      const bool is_helped = Consider(&help, 1, {0}).has_value();
      helps += is_helped ? 1 : 0;
      if (is_helped && is_answered) help.OnDelivered(step_, 0, /*worker=*/0, /*was_first=*/false);
      help.StartStep(now_, step_ + 1, Place(1), true);
      if (is_helped && !is_answered) help.OnDelivered(step_, 0, /*worker=*/0, /*was_first=*/false);
      ++step_;
    }
    EXPECT_GT(helps, 0);
    EXPECT_LT(helps, 20);
  }
}

TEST_F(StepHelpTest, APullIsParkedUntilHelpIsDueAndThenLongerAndLonger) {
  StepHelp help;
  EXPECT_EQ(help.Park(now_, Place(1)), StepHelp::kLongestPark);
  UsualSteps(&help, 3, 3);
  EXPECT_EQ(help.Park(now_, Place(3)), 0.5 * kStep) << "with the push, before it is idle";
  now_ += 0.8 * kStep;
  help.OnIdle(now_);
  now_ += 0.2 * kStep;
  EXPECT_EQ(help.Park(now_, Place(3)), 0.3 * kStep);
  now_ += 0.3 * kStep;
  EXPECT_EQ(help.Park(now_, Place(3)), 0.5 * kStep);
  now_ += 0.5 * kStep;
  EXPECT_EQ(help.Park(now_, Place(3)), kStep);
  now_ += 100 * kStep;
  EXPECT_EQ(help.Park(now_, Place(3)), StepHelp::kLongestPark);
  num_workers_ = 1;
  EXPECT_EQ(help.Park(now_, Place(0)), StepHelp::kLongestPark) << "there is nobody to help";
}

}  // namespace
}  // namespace shoal
