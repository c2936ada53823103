#include "worker/async_step_logic.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

// Three groups: 0 has slices 0 and 1 of ps 0; 1 has slice 2 of ps 1; 2 is not versioned.
class AsyncStepLogicTest : public ::testing::Test {
 protected:
  AsyncStepLogicTest() : logic_(Options(), Plan()) { View(1, {10, 20}); }

  static AsyncStepLogic::Options Options() {
    AsyncStepLogic::Options options;
    options.groups.resize(3);
    options.groups[0].slices = {0, 1};
    options.groups[1].slices = {2};
    options.groups[1].ps = 1;
    options.groups[2].slices = {3};
    options.groups[2].versioned = false;
    return options;
  }
  static StepPlan Plan() {
    StepPlan::Options options;
    options.examples_per_epoch = 95;
    options.batch_examples = 10;
    return *StepPlan::Create(options);
  }

  void View(uint64_t number, std::vector<uint64_t> ps_incarnations, uint64_t lineage = 1) {
    AsyncView view;
    view.number = number;
    view.lineage = lineage;
    view.training = true;
    view.ps_incarnations = std::move(ps_incarnations);
    logic_.OnView(view);
  }

  AsyncAction Next() { return logic_.Next(now_); }

  static v1::LeaseBatchesResponse::Lease Lease(uint64_t index,
                                               const std::vector<uint32_t>& ps = {}) {
    v1::LeaseBatchesResponse::Lease lease;
    *lease.mutable_batch() = ToProto(BatchKey{0, index});
    for (const uint32_t only : ps) lease.add_ps(only);
    return lease;
  }

  // The next action must be a call; its answer.
  void Answer(const std::vector<v1::LeaseBatchesResponse::Lease>& leases,
              const std::vector<uint64_t>& blocks = {}) {
    ASSERT_EQ(Next().kind, AsyncAction::kLease);
    AnswerLate(leases, blocks);
  }
  // `blocks` are to be evaluated at version 3.
  void AnswerLate(const std::vector<v1::LeaseBatchesResponse::Lease>& leases,
                  const std::vector<uint64_t>& blocks = {}) {
    v1::LeaseBatchesResponse answer;
    for (const auto& lease : leases) *answer.add_leases() = lease;
    for (const uint64_t block : blocks) {
      answer.add_evaluations()->set_version(3);
      answer.mutable_evaluations()->rbegin()->set_block(block);
    }
    logic_.OnLeaseAnswer(now_, logic_.lease_call().number(), answer);
  }

  // The batches that the call reports as finished.
  std::vector<BatchKey> Finished() const {
    std::vector<BatchKey> batches;
    for (const v1::BatchId& batch : logic_.lease_call().finished())
      batches.push_back(ToBatchKey(batch));
    return batches;
  }

  // Ends the exchange of a group: one outcome for each slice, values at `version`.
  void Exchanged(uint64_t ticket, uint32_t group, const std::vector<PushOutcome>& outcomes,
                 uint64_t version = 1) {
    ExchangeResult result;
    const std::vector<PulledSlice> pulls(group == 0 ? 2 : 1, PulledSlice{version, version, true});
    result.outcomes = outcomes;
    result.pulls = pulls;
    logic_.OnExchange(ticket, group, result);
  }
  void Aborted(uint64_t ticket, uint32_t group) {
    ExchangeResult result;
    result.status = absl::AbortedError("moved");
    logic_.OnExchange(ticket, group, result);
  }
  // The next action must be a pull of these groups, which succeeds.
  void Pull(const std::vector<uint32_t>& groups, uint64_t version = 1) {
    const AsyncAction action = Next();
    ASSERT_EQ(action.kind, AsyncAction::kPull);
    ASSERT_EQ(std::vector<uint32_t>(action.groups.begin(), action.groups.end()), groups);
    for (uint32_t group : groups) Exchanged(action.ticket, group, {}, version);
  }
  AsyncAction Compute(uint64_t index) {
    const AsyncAction action = Next();
    EXPECT_EQ(action.kind, AsyncAction::kCompute);
    EXPECT_EQ(action.batch, (BatchKey{0, index}));
    return action;
  }
  void Accepted(const AsyncAction& action) {
    Exchanged(action.ticket, 0, {PushOutcome::kAccepted, PushOutcome::kAccepted});
    Exchanged(action.ticket, 1, {PushOutcome::kAccepted});
  }
  // Starts batch 0 with all values pulled.
  AsyncAction StartFirstBatch(const std::vector<uint32_t>& ps = {}) {
    Answer({Lease(0, ps), Lease(1), Lease(2)});
    Pull({0, 1, 2});
    return Compute(0);
  }

  AsyncStepLogic logic_;
  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(AsyncStepLogicTest, NothingIsBegunUntilTheRunTrains) {
  AsyncStepLogic logic(Options(), Plan());
  EXPECT_EQ(logic.Next(now_).kind, AsyncAction::kWait);
}

TEST_F(AsyncStepLogicTest, LeasesPullsComputesAndReports) {
  const AsyncAction first = StartFirstBatch();
  EXPECT_EQ(first.batch_examples, 10u);
  EXPECT_THAT(logic_.WantsPush(0), ElementsAre(1, 1));
  EXPECT_THAT(logic_.PulledVersions(0), ElementsAre(1, 1));
  EXPECT_NE(first.parameter_set, first.next_parameter_set);
  EXPECT_EQ(Next().kind, AsyncAction::kWait);
  Exchanged(first.ticket, 0, {PushOutcome::kAccepted, PushOutcome::kDuplicate}, 7);
  Exchanged(first.ticket, 1, {PushOutcome::kAccepted}, 8);
  EXPECT_EQ(logic_.num_finished(), 1u);

  // The values that came back are those of the next batch. Variables that never change are pulled
  // once into each set.
  Pull({2});
  const AsyncAction second = Compute(1);
  EXPECT_EQ(second.parameter_set, first.next_parameter_set);
  EXPECT_THAT(logic_.PulledVersions(0), ElementsAre(7, 7));
  EXPECT_THAT(logic_.PulledVersions(1), ElementsAre(8));
  Accepted(second);
  // Before the last held batch: a call, which does not delay the computation.
  ASSERT_EQ(Next().kind, AsyncAction::kLease);
  EXPECT_THAT(Finished(), ElementsAre(BatchKey{0, 0}, BatchKey{0, 1}));
  const AsyncAction third = Compute(2);
  AnswerLate({Lease(2), Lease(3)});
  Accepted(third);
  ASSERT_EQ(Next().kind, AsyncAction::kLease);
  EXPECT_THAT(Finished(), ElementsAre(BatchKey{0, 2}));
  Compute(3);
}

TEST_F(AsyncStepLogicTest, ARefusedSliceGetsTheBatchAgainFromNewerValuesAndOthersDoNot) {
  const AsyncAction first = StartFirstBatch();
  Exchanged(first.ticket, 0, {PushOutcome::kAccepted, PushOutcome::kStale}, 5);
  Exchanged(first.ticket, 1, {PushOutcome::kAccepted}, 5);
  EXPECT_EQ(logic_.num_finished(), 0u);
  Pull({2});
  const AsyncAction again = Compute(0);
  EXPECT_THAT(logic_.WantsPush(0), ElementsAre(0, 1));
  EXPECT_FALSE(logic_.WantsAnyPush(1));
  EXPECT_THAT(logic_.PulledVersions(0), ElementsAre(5, 5));
  Exchanged(again.ticket, 0, {PushOutcome::kNone, PushOutcome::kAccepted}, 6);
  Exchanged(again.ticket, 1, {PushOutcome::kNone}, 6);
  EXPECT_EQ(logic_.num_finished(), 1u);
}

TEST_F(AsyncStepLogicTest, AfterThreeRefusalsTheChiefIsNotified) {
  AsyncAction action = StartFirstBatch();
  for (int refusal = 1; refusal <= 3; ++refusal) {
    Exchanged(action.ticket, 0, {PushOutcome::kStale, PushOutcome::kStale});
    Exchanged(action.ticket, 1, {PushOutcome::kStale});
    if (refusal == 1) Pull({2});
    if (refusal < 3) action = Compute(0);
  }
  ASSERT_EQ(Next().kind, AsyncAction::kLease);
  ASSERT_EQ(logic_.lease_call().stale_size(), 1);
  EXPECT_EQ(ToBatchKey(logic_.lease_call().stale(0)), (BatchKey{0, 0}));
  EXPECT_THAT(Finished(), IsEmpty());
}

TEST_F(AsyncStepLogicTest, AMaskedLeaseIsPushedToItsPsOnly) {
  const AsyncAction action = StartFirstBatch({1});
  EXPECT_FALSE(logic_.WantsAnyPush(0));
  EXPECT_THAT(logic_.WantsPush(1), ElementsAre(1));
  Exchanged(action.ticket, 0, {});
  Exchanged(action.ticket, 1, {PushOutcome::kAccepted});
  EXPECT_EQ(logic_.num_finished(), 1u);
}

TEST_F(AsyncStepLogicTest, AnAbortedExchangeIsPulledAndPushedAgain) {
  const AsyncAction first = StartFirstBatch();
  Exchanged(first.ticket, 0, {PushOutcome::kAccepted, PushOutcome::kAccepted});
  Aborted(first.ticket, 1);
  Pull({1, 2});
  Compute(0);
  EXPECT_FALSE(logic_.WantsAnyPush(0));
  EXPECT_TRUE(logic_.WantsAnyPush(1));
}

TEST_F(AsyncStepLogicTest, APsThatCameBackIsPulledAgain) {
  const AsyncAction first = StartFirstBatch();
  Exchanged(first.ticket, 0, {PushOutcome::kAccepted, PushOutcome::kAccepted});
  View(2, {10, 21});
  // An answer of the former life: its values are not used.
  Exchanged(first.ticket, 1, {PushOutcome::kAccepted}, 90);
  Pull({1, 2}, 70);
  Compute(1);
  EXPECT_THAT(logic_.PulledVersions(1), ElementsAre(70));
}

TEST_F(AsyncStepLogicTest, AnOlderViewIsIgnored) {
  View(5, {10, 21});
  StartFirstBatch();
  View(4, {10, 20});
  Exchanged(logic_.Next(now_).ticket, 0, {});  // not the ticket under way
  EXPECT_EQ(logic_.current_batch(), (BatchKey{0, 0}));
}

TEST_F(AsyncStepLogicTest, ABatchThatIsNotFiniteIsReportedAndLeft) {
  const AsyncAction first = StartFirstBatch();
  logic_.OnNotPushed(first.ticket, 0);
  logic_.OnNotPushed(first.ticket, 1);
  const AsyncAction report = Next();
  ASSERT_EQ(report.kind, AsyncAction::kReportBad);
  EXPECT_EQ(report.batch, (BatchKey{0, 0}));
  EXPECT_EQ(Next().kind, AsyncAction::kWait);
  logic_.OnReported(report.ticket);
  Answer({Lease(1), Lease(2)});
  EXPECT_THAT(Finished(), IsEmpty());
  Pull({0, 1, 2});
  Compute(1);
}

TEST_F(AsyncStepLogicTest, ANonFiniteAnswerIsReportedToo) {
  const AsyncAction first = StartFirstBatch();
  Exchanged(first.ticket, 0, {PushOutcome::kAccepted, PushOutcome::kNonFinite});
  Exchanged(first.ticket, 1, {PushOutcome::kAccepted});
  EXPECT_EQ(Next().kind, AsyncAction::kReportBad);
}

TEST_F(AsyncStepLogicTest, BatchesThatTheChiefTookAwayAreDropped) {
  StartFirstBatch();
  const AsyncAction first = [&] {
    AsyncAction action;
    action.ticket = 2;  // the ticket of the compute under way
    return action;
  }();
  Exchanged(first.ticket, 0, {PushOutcome::kWithheld, PushOutcome::kAccepted});
  Exchanged(first.ticket, 1, {PushOutcome::kAccepted});
  EXPECT_FALSE(logic_.current_batch().has_value());
  Answer({Lease(2)});
  EXPECT_EQ(logic_.num_finished(), 0u);
  Pull({2});
  Compute(2);
}

TEST_F(AsyncStepLogicTest, ACallThatFailedIsMadeAgainWithTheSameContent) {
  const AsyncAction first = StartFirstBatch();
  Accepted(first);
  Pull({2});
  Accepted(Compute(1));
  ASSERT_EQ(Next().kind, AsyncAction::kLease);
  const v1::LeaseBatchesRequest call = logic_.lease_call();
  Accepted(Compute(2));
  logic_.OnLeaseFailed(now_, call.number());
  EXPECT_EQ(Next().kind, AsyncAction::kWait);
  EXPECT_GT(Next().wake, now_);
  now_ += absl::Seconds(1);
  ASSERT_EQ(Next().kind, AsyncAction::kLease);
  EXPECT_EQ(logic_.lease_call().ShortDebugString(), call.ShortDebugString());
  // A batch that was finished since is not computed again, and reported next.
  AnswerLate({Lease(2)});
  ASSERT_EQ(Next().kind, AsyncAction::kLease);
  EXPECT_THAT(Finished(), ElementsAre(BatchKey{0, 2}));
  EXPECT_EQ(Next().kind, AsyncAction::kWait);
}

TEST_F(AsyncStepLogicTest, AnAnswerToAnotherCallIsIgnored) {
  ASSERT_EQ(Next().kind, AsyncAction::kLease);
  v1::LeaseBatchesResponse answer;
  *answer.add_leases() = Lease(0);
  logic_.OnLeaseAnswer(now_, 77, answer);
  EXPECT_EQ(Next().kind, AsyncAction::kWait);
}

TEST_F(AsyncStepLogicTest, BlocksAreEvaluatedOnceWithFreshValues) {
  Accepted(StartFirstBatch());
  Pull({2});
  Accepted(Compute(1));
  Answer({Lease(2)});
  Accepted(Compute(2));
  Answer({}, {4, 5});
  Pull({0, 1});  // others have pushed since
  AsyncAction block = Next();
  ASSERT_EQ(block.kind, AsyncAction::kEvaluate);
  EXPECT_EQ(block.version, 3u);
  EXPECT_EQ(block.block, 4u);
  EXPECT_EQ(Next().kind, AsyncAction::kWait);
  logic_.OnEvaluated(block.ticket);
  block = Next();
  ASSERT_EQ(block.kind, AsyncAction::kEvaluate);
  EXPECT_EQ(block.block, 5u);
  logic_.OnEvaluated(block.ticket);
  // A late answer may list them still.
  Answer({}, {4, 5});
  EXPECT_EQ(Next().kind, AsyncAction::kWait);
}

TEST_F(AsyncStepLogicTest, AfterAPauseValuesArePulledAgain) {
  Answer({Lease(0)});
  Pull({0, 1, 2});
  Accepted(Compute(0));
  Answer({});
  const AsyncAction wait = Next();
  EXPECT_EQ(wait.kind, AsyncAction::kWait);
  EXPECT_EQ(wait.wake, now_ + Options().first_ask_again);
  now_ = wait.wake;
  Answer({Lease(1)});
  Pull({0, 1, 2});
  Compute(1);
}

TEST_F(AsyncStepLogicTest, WaitsTwiceAsLongEachTimeThereIsNothingToDo) {
  const absl::Duration first = Options().first_ask_again;
  std::vector<absl::Duration> waits;
  const auto answer_with_nothing = [&] {
    Answer({});
    const AsyncAction wait = Next();
    ASSERT_EQ(wait.kind, AsyncAction::kWait);
    waits.push_back(wait.wake - now_);
    now_ = wait.wake;
  };
  for (int i = 0; i < 7; ++i) answer_with_nothing();
  EXPECT_THAT(waits, ElementsAre(first, 2 * first, 4 * first, 8 * first, 16 * first,
                                 Options().ask_again, Options().ask_again));
  waits.clear();
  Answer({Lease(0)});
  Pull({0, 1, 2});
  Accepted(Compute(0));
  answer_with_nothing();
  EXPECT_THAT(waits, ElementsAre(first));
}

TEST_F(AsyncStepLogicTest, ABatchWhoseRowsCannotBePulledIsLeftToTheChief) {
  logic_.OnNoRows(StartFirstBatch().ticket);
  EXPECT_FALSE(logic_.current_batch().has_value());
  Answer({Lease(1), Lease(0)});
  EXPECT_THAT(Finished(), IsEmpty());
  Accepted(Compute(1));
  Answer({Lease(0)});
  Pull({2});
  Accepted(Compute(0));
  EXPECT_EQ(logic_.num_finished(), 2u);
}

TEST_F(AsyncStepLogicTest, ABlockWhoseRowsCannotBePulledIsLeftToTheChief) {
  Answer({}, {4});
  Pull({0, 1, 2});
  const AsyncAction evaluate = Next();
  ASSERT_EQ(evaluate.kind, AsyncAction::kEvaluate);
  logic_.OnNoRows(evaluate.ticket);
  Answer({}, {4});
  const AsyncAction again = Next();
  ASSERT_EQ(again.kind, AsyncAction::kEvaluate);
  EXPECT_EQ(again.block, 4u);
}

}  // namespace
}  // namespace shoal
