#include "worker/sync_step_logic.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using testing::ElementsAre;

// Two groups with versions and, last, one without. Four batches of one example in a step.
class SyncStepLogicTest : public testing::Test {
 protected:
  SyncStepLogic MakeLogic(uint32_t worker) {
    SyncStepLogic::Options options;
    options.worker = worker;
    options.group_versioned = {true, true, false};
    options.num_evaluation_blocks = 5;
    return SyncStepLogic(options, *StepPlan::Create({0, 0, 400, 1, 4}));
  }

  SyncView View(uint64_t number, std::vector<uint32_t> workers, uint64_t lineage = 1) {
    SyncView view;
    view.number = number;
    view.lineage = lineage;
    view.training = true;
    view.workers = std::move(workers);
    view.last_step = 100;
    view.evaluations = VersionSchedule{50, 100};
    return view;
  }

  SyncAction Next(SyncStepLogic& logic) { return logic.Next(now_); }

  void Versions(SyncStepLogic& logic, const SyncAction& action, uint32_t group, uint64_t version) {
    const PulledSlice slice{version, 0, false};
    ExchangeResult result;
    result.pulls = absl::MakeConstSpan(&slice, 1);
    logic.OnExchange(now_, action.ticket, group, result);
  }

  // The end of an exchange of one slice. version 0: it did not pull.
  void Done(SyncStepLogic& logic, uint64_t ticket, uint32_t group, PushOutcome outcome,
            uint64_t version, bool has_value, absl::Status status = absl::OkStatus()) {
    const PulledSlice slice{version, version, has_value};
    ExchangeResult result;
    result.status = std::move(status);
    if (outcome != PushOutcome::kNone) result.outcomes = absl::MakeConstSpan(&outcome, 1);
    if (version != 0) result.pulls = absl::MakeConstSpan(&slice, 1);
    logic.OnExchange(now_, ticket, group, result);
  }

  // Brings a worker to the version where the slices are.
  void Join(SyncStepLogic& logic, const SyncView& view, uint64_t version) {
    logic.OnView(view);
    const SyncAction query = Next(logic);
    ASSERT_EQ(query.kind, SyncAction::kQueryVersions);
    for (uint32_t group : {0, 1}) Versions(logic, query, group, version + group);
    Versions(logic, query, 2, kEveryVersion);
    const SyncAction pull = Next(logic);
    ASSERT_EQ(pull.kind, SyncAction::kPull);
    EXPECT_EQ(pull.version, version) << "the lowest of all slices";
    for (uint32_t group : {0, 1})
      Done(logic, pull.ticket, group, PushOutcome::kNone, version + 1, true);
    Done(logic, pull.ticket, 2, PushOutcome::kNone, kEveryVersion, true);
  }

  // A whole step of a worker that joined: a second, and its contributions came as `outcome`.
  void RunStep(SyncStepLogic& logic, PushOutcome outcome) {
    SyncAction compute;
    for (SyncAction action = Next(logic); action.kind != SyncAction::kWait; action = Next(logic)) {
      if (action.kind == SyncAction::kCompute) {
        compute = action;
      } else if (action.kind == SyncAction::kPull) {  // The group without versions, once.
        Done(logic, action.ticket, 2, PushOutcome::kNone, kEveryVersion, true);
      }
    }
    ASSERT_EQ(compute.kind, SyncAction::kCompute);
    now_ += absl::Seconds(1);
    for (const uint32_t group : {0, 1}) {
      Done(logic, compute.ticket, group, outcome, compute.version + 1, true);
    }
  }

  // The next version is not there: the slices of the group lack a position.
  void Lacks(SyncStepLogic& logic, const SyncAction& action, uint32_t group, PushOutcome outcome,
             uint32_t position) {
    const PulledSlice slice{action.version, action.version, false};
    ExchangeResult result;
    if (outcome != PushOutcome::kNone) result.outcomes = absl::MakeConstSpan(&outcome, 1);
    result.pulls = absl::MakeConstSpan(&slice, 1);
    result.missing_positions = absl::MakeConstSpan(&position, 1);
    logic.OnExchange(now_, action.ticket, group, result);
  }

  absl::Time now_ = absl::UnixEpoch();
};

TEST_F(SyncStepLogicTest, WaitsUntilItIsAMember) {
  SyncStepLogic logic = MakeLogic(3);
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  logic.OnView(View(1, {0, 1}));
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  logic.OnView(View(2, {0, 1, 3}));
  EXPECT_EQ(Next(logic).kind, SyncAction::kQueryVersions);
}

TEST_F(SyncStepLogicTest, ComputesItsPositionsAndPullsWithTheLast) {
  SyncStepLogic logic = MakeLogic(1);
  Join(logic, View(1, {0, 1}), 7);
  const SyncAction first = Next(logic);
  ASSERT_EQ(first.kind, SyncAction::kCompute);
  EXPECT_EQ(first.position, 1u);
  EXPECT_EQ(first.batch, (BatchKey{0, 29}));
  EXPECT_EQ(first.version, 7u);
  EXPECT_FALSE(first.pull_next);
  const SyncAction second = Next(logic);
  ASSERT_EQ(second.kind, SyncAction::kCompute);
  EXPECT_EQ(second.position, 3u);
  EXPECT_TRUE(second.pull_next);
  EXPECT_NE(second.gradient_set, first.gradient_set);
  EXPECT_NE(second.next_parameter_set, second.parameter_set);
  // The group without versions is pulled once into the other set of parameters.
  const SyncAction pull = Next(logic);
  ASSERT_EQ(pull.kind, SyncAction::kPull);
  EXPECT_THAT(pull.groups, ElementsAre(2));
  EXPECT_EQ(pull.parameter_set, second.next_parameter_set);
  Done(logic, pull.ticket, 2, PushOutcome::kNone, kEveryVersion, true);
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);

  for (uint32_t group : {0, 1}) {
    Done(logic, first.ticket, group, PushOutcome::kAccepted, 0, false);
    Done(logic, second.ticket, group, PushOutcome::kDuplicate, 8, true);
  }
  const SyncAction next = Next(logic);
  ASSERT_EQ(next.kind, SyncAction::kCompute);
  EXPECT_EQ(next.version, 8u);
  EXPECT_EQ(next.parameter_set, second.next_parameter_set);
}

TEST_F(SyncStepLogicTest, ABufferIsGivenOutAgainOnlyWhenItsPushesAreDone) {
  SyncStepLogic logic = MakeLogic(0);
  Join(logic, View(1, {0}), 0);
  const SyncAction first = Next(logic), second = Next(logic);
  ASSERT_EQ(second.kind, SyncAction::kCompute);
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  Done(logic, first.ticket, 0, PushOutcome::kAccepted, 0, false);
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  Done(logic, first.ticket, 1, PushOutcome::kAccepted, 0, false);
  const SyncAction third = Next(logic);
  ASSERT_EQ(third.kind, SyncAction::kCompute);
  EXPECT_EQ(third.position, 2u);
  EXPECT_EQ(third.gradient_set, first.gradient_set);
}

TEST_F(SyncStepLogicTest, TakesUpWhatBecomesItsOwnWhileItWaits) {
  SyncStepLogic logic = MakeLogic(1);
  Join(logic, View(1, {0, 1, 2, 3}), 0);
  const SyncAction own = Next(logic);
  EXPECT_EQ(own.position, 1u);
  EXPECT_TRUE(own.pull_next);
  SyncView view = View(2, {1, 2, 3});  // worker 0 died: rank 0 now, positions 0 and 3
  view.delivered.insert({0, 3});
  logic.OnView(view);
  const SyncAction taken = Next(logic);
  ASSERT_EQ(taken.kind, SyncAction::kCompute);
  EXPECT_EQ(taken.position, 0u);
  EXPECT_FALSE(taken.pull_next) << "the pulls are under way already";
  EXPECT_NE(Next(logic).kind, SyncAction::kCompute) << "position 3 is delivered";
}

TEST_F(SyncStepLogicTest, ASurplusWorkerRepeatsAPositionThatChangesWithTheStep) {
  std::vector<uint32_t> positions;
  for (uint64_t step : {0, 1, 2}) {
    SyncStepLogic logic = MakeLogic(5);
    Join(logic, View(1, {0, 1, 2, 3, 5}), step);
    positions.push_back(Next(logic).position);
  }
  EXPECT_THAT(positions, ElementsAre(0, 1, 2));
}

TEST_F(SyncStepLogicTest, ASurplusWorkerStaysWithTheWorkerThatItIsFasterThan) {
  SyncStepLogic logic = MakeLogic(5);
  Join(logic, View(1, {0, 1, 2, 3, 5}), 2);
  RunStep(logic, PushOutcome::kAccepted);  // Position 2, before worker/2 has delivered it.
  for (const PushOutcome outcome : {PushOutcome::kAccepted, PushOutcome::kDuplicate}) {
    const SyncAction compute = Next(logic);
    ASSERT_EQ(compute.kind, SyncAction::kCompute);
    EXPECT_EQ(compute.position, 2u);
    for (SyncAction other = Next(logic); other.kind == SyncAction::kPull; other = Next(logic)) {
      Done(logic, other.ticket, 2, PushOutcome::kNone, kEveryVersion, true);
    }
    for (const uint32_t group : {0, 1}) {
      Done(logic, compute.ticket, group, outcome, compute.version + 1, true);
    }
  }
  const SyncAction compute = Next(logic);
  EXPECT_EQ(compute.position, (compute.version + 4) % 4) << "worker/2 is as fast as this one";
}

TEST_F(SyncStepLogicTest, ASurplusWorkerComputesWhatIsMissingAndAsksForTheNextVersionFirst) {
  SyncStepLogic logic = MakeLogic(5);
  Join(logic, View(1, {0, 1, 2, 3, 5}), 0);
  for (int i = 0; i < 3; ++i) RunStep(logic, PushOutcome::kDuplicate);
  const SyncAction compute = Next(logic);
  ASSERT_EQ(compute.kind, SyncAction::kCompute);
  EXPECT_EQ(compute.position, 3u);
  EXPECT_LT(compute.park, absl::Seconds(1)) << "it asks what is missing";
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  now_ += absl::Milliseconds(600);
  for (const uint32_t group : {0, 1}) Lacks(logic, compute, group, PushOutcome::kAccepted, 1);
  const SyncAction pull = Next(logic);
  ASSERT_EQ(pull.kind, SyncAction::kPull);
  EXPECT_EQ(pull.version, 4u);
  const SyncAction help = Next(logic);
  ASSERT_EQ(help.kind, SyncAction::kCompute);
  EXPECT_EQ(help.position, 1u);
  EXPECT_EQ(help.version, 3u);
  EXPECT_FALSE(help.pull_next);
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  for (const uint32_t group : {0, 1}) {
    Done(logic, pull.ticket, group, PushOutcome::kNone, 4, true);
    Done(logic, help.ticket, group, PushOutcome::kAccepted, 0, false);
  }
  const SyncAction next = Next(logic);
  EXPECT_EQ(next.version, 4u);
  EXPECT_EQ(next.position, 1u) << "worker/1 is the slow one";
}

TEST_F(SyncStepLogicTest, AHelperAtAnEvaluationEvaluatesTheBlocksOfThePositionFirst) {
  SyncStepLogic logic = MakeLogic(1);
  Join(logic, View(1, {0, 1, 2, 3}), 47);
  for (int i = 0; i < 3; ++i) RunStep(logic, PushOutcome::kAccepted);
  const SyncAction own = Next(logic);
  ASSERT_EQ(own.kind, SyncAction::kEvaluate);
  logic.OnEvaluated(own.ticket);
  const SyncAction compute = Next(logic);
  ASSERT_EQ(compute.kind, SyncAction::kCompute);
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  now_ += absl::Seconds(5);
  for (const uint32_t group : {0, 1}) Lacks(logic, compute, group, PushOutcome::kAccepted, 0);
  EXPECT_EQ(Next(logic).kind, SyncAction::kPull);
  std::vector<uint64_t> blocks;
  for (SyncAction action = Next(logic); action.kind == SyncAction::kEvaluate;
       action = Next(logic)) {
    blocks.push_back(action.block);
    logic.OnEvaluated(action.ticket);
    if (blocks.size() == 2) break;
  }
  EXPECT_THAT(blocks, ElementsAre(0, 4));
  const SyncAction help = Next(logic);
  ASSERT_EQ(help.kind, SyncAction::kCompute);
  EXPECT_EQ(help.position, 0u);
}

TEST_F(SyncStepLogicTest, AHelperLeavesAWithheldPositionToItsOwner) {
  SyncStepLogic logic = MakeLogic(5);
  Join(logic, View(1, {0, 1, 2, 3, 5}), 0);
  const SyncAction compute = Next(logic);
  EXPECT_EQ(compute.position, 0u);
  for (const uint32_t group : {0, 1}) {
    Done(logic, compute.ticket, group, PushOutcome::kWithheld, 0, false);
  }
  EXPECT_EQ(Next(logic).kind, SyncAction::kPull);
  now_ += absl::Seconds(5);
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  logic.OnView(View(2, {5, 1, 2, 3}));  // It is this worker's now.
  const SyncAction again = Next(logic);
  ASSERT_EQ(again.kind, SyncAction::kCompute);
  EXPECT_EQ(again.position, 0u);
}

TEST_F(SyncStepLogicTest, EvaluatesItsBlocksBeforeItComputes) {
  SyncStepLogic logic = MakeLogic(1);
  Join(logic, View(1, {0, 1}), 50);
  std::vector<uint64_t> blocks;
  std::vector<uint64_t> tickets;
  for (SyncAction action = Next(logic); action.kind == SyncAction::kEvaluate;
       action = Next(logic)) {
    blocks.push_back(action.block);
    tickets.push_back(action.ticket);
  }
  EXPECT_THAT(blocks, ElementsAre(1, 3)) << "block k belongs to position k mod R";
  EXPECT_NE(Next(logic).kind, SyncAction::kCompute);
  for (uint64_t ticket : tickets) logic.OnEvaluated(ticket);
  EXPECT_EQ(Next(logic).kind, SyncAction::kCompute);
}

TEST_F(SyncStepLogicTest, AtTheEndItOnlyEvaluates) {
  SyncStepLogic logic = MakeLogic(0);
  Join(logic, View(1, {0, 1}), 100);
  for (int i = 0; i < 3; ++i) {
    const SyncAction action = Next(logic);
    ASSERT_EQ(action.kind, SyncAction::kEvaluate);
    logic.OnEvaluated(action.ticket);
  }
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  EXPECT_TRUE(logic.is_at_end());
  logic.OnView(View(2, {0}));  // worker 1 died with its blocks
  EXPECT_EQ(Next(logic).kind, SyncAction::kEvaluate);
}

TEST_F(SyncStepLogicTest, ANonFiniteBatchIsReportedOnceAndNotPushedAgain) {
  SyncStepLogic logic = MakeLogic(3);
  Join(logic, View(1, {0, 1, 2, 3}), 0);
  const SyncAction compute = Next(logic);
  Done(logic, compute.ticket, 0, PushOutcome::kAccepted, 1, true);
  logic.OnNotPushed(now_, compute.ticket, 1);
  const SyncAction report = Next(logic);
  ASSERT_EQ(report.kind, SyncAction::kReportBad);
  EXPECT_EQ(report.batch, compute.batch);
  const SyncAction pull = Next(logic);
  ASSERT_EQ(pull.kind, SyncAction::kPull);
  EXPECT_THAT(pull.groups, ElementsAre(1, 2)) << "what was not pushed is still wanted";
  now_ += absl::Seconds(5);
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait) << "the chief does not know yet";
  logic.OnReported(report.ticket);
  const SyncAction wait = Next(logic);
  EXPECT_EQ(wait.kind, SyncAction::kWait);
  SyncView skipped = View(2, {0, 1, 2, 3});
  skipped.skipped.insert(compute.batch);
  logic.OnView(skipped);
  now_ = wait.wake;
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
}

TEST_F(SyncStepLogicTest, AReportedBatchIsComputedAgainAfterAWhileUnlessItIsSkipped) {
  SyncStepLogic logic = MakeLogic(3);
  Join(logic, View(1, {0, 1, 2, 3}), 0);
  const SyncAction compute = Next(logic);
  for (const uint32_t group : {0, 1}) logic.OnNotPushed(now_, compute.ticket, group);
  logic.OnReported(Next(logic).ticket);
  EXPECT_EQ(Next(logic).kind, SyncAction::kPull);
  now_ = Next(logic).wake;
  const SyncAction again = Next(logic);
  ASSERT_EQ(again.kind, SyncAction::kCompute);
  EXPECT_EQ(again.batch, compute.batch);
  for (const uint32_t group : {0, 1}) logic.OnNotPushed(now_, again.ticket, group);
  EXPECT_EQ(Next(logic).kind, SyncAction::kReportBad);
}

TEST_F(SyncStepLogicTest, AWithheldBatchIsComputedAgainAfterAWhileUnlessItIsSkipped) {
  SyncStepLogic logic = MakeLogic(3);
  Join(logic, View(1, {0, 1, 2, 3}), 0);
  const SyncAction compute = Next(logic);
  for (uint32_t group : {0, 1})
    Done(logic, compute.ticket, group, PushOutcome::kWithheld, 0, false);
  SyncAction action = Next(logic);
  EXPECT_EQ(action.kind, SyncAction::kPull);
  action = Next(logic);
  EXPECT_EQ(action.kind, SyncAction::kWait);
  EXPECT_EQ(action.wake, now_ + absl::Milliseconds(200));
  now_ = action.wake;
  EXPECT_EQ(Next(logic).kind, SyncAction::kCompute);
}

TEST_F(SyncStepLogicTest, ALeftBehindWorkerLooksWhereTheOthersAre) {
  SyncStepLogic logic = MakeLogic(3);
  Join(logic, View(1, {0, 1, 2, 3}), 0);
  const SyncAction compute = Next(logic);
  Done(logic, compute.ticket, 0, PushOutcome::kDuplicate, 3, false);
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait) << "until the other pull has ended";
  Done(logic, compute.ticket, 1, PushOutcome::kDuplicate, 3, false);
  EXPECT_EQ(Next(logic).kind, SyncAction::kQueryVersions);
}

TEST_F(SyncStepLogicTest, ANewLineageStartsOverAndOldAnswersOnlyFreeBuffers) {
  SyncStepLogic logic = MakeLogic(3);
  Join(logic, View(1, {0, 1, 2, 3}), 5);
  const SyncAction compute = Next(logic);
  logic.OnView(View(2, {0, 1, 2, 3}, 2));
  EXPECT_FALSE(logic.has_step());
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  for (uint32_t group : {0, 1}) Done(logic, compute.ticket, group, PushOutcome::kAccepted, 6, true);
  const SyncAction query = Next(logic);
  ASSERT_EQ(query.kind, SyncAction::kQueryVersions);
  EXPECT_EQ(query.lineage, 2u);
  logic.OnView(View(1, {0}, 1));  // late
  for (uint32_t group : {0, 1, 2}) Versions(logic, query, group, 2);
  const SyncAction pull = Next(logic);
  EXPECT_EQ(pull.version, 2u);
  EXPECT_THAT(pull.groups, ElementsAre(0, 1, 2)) << "of an old lineage nothing is good any more";
}

TEST_F(SyncStepLogicTest, WhenTheStoreHasMovedItWaitsForTheView) {
  SyncStepLogic logic = MakeLogic(3);
  Join(logic, View(1, {0, 1, 2, 3}), 5);
  const SyncAction compute = Next(logic);
  Done(logic, compute.ticket, 0, PushOutcome::kNone, 0, false, absl::AbortedError("moved"));
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  Done(logic, compute.ticket, 1, PushOutcome::kNone, 0, false, absl::AbortedError("moved"));
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  logic.OnView(View(2, {0, 1, 2, 3}, 2));
  EXPECT_EQ(Next(logic).kind, SyncAction::kQueryVersions);
}

// The rows of tables that a batch reads may be gone when the others have continued.
TEST_F(SyncStepLogicTest, WithoutTheRowsOfABatchItAsksForTheVersionsAgain) {
  SyncStepLogic logic = MakeLogic(0);
  Join(logic, View(1, {0, 1}), 7);
  SyncAction compute = Next(logic);
  ASSERT_EQ(compute.kind, SyncAction::kCompute);
  logic.OnNoRows(compute.ticket);
  SyncAction query = Next(logic);
  ASSERT_EQ(query.kind, SyncAction::kQueryVersions);
  for (uint32_t group : {0, 1}) Versions(logic, query, group, 9);
  Versions(logic, query, 2, kEveryVersion);
  const SyncAction pull = Next(logic);
  ASSERT_EQ(pull.kind, SyncAction::kPull);
  EXPECT_EQ(pull.version, 9u);
  for (uint32_t group : {0, 1}) Done(logic, pull.ticket, group, PushOutcome::kNone, 9, true);
  // Both sets of gradients are free.
  for (int i = 0; i < 2; ++i) {
    compute = Next(logic);
    ASSERT_EQ(compute.kind, SyncAction::kCompute);
    EXPECT_EQ(compute.version, 9u);
  }
  // A result of an older lineage only frees its buffers.
  logic.OnView(View(2, {0, 1}, 2));
  EXPECT_EQ(Next(logic).kind, SyncAction::kWait);
  logic.OnNoRows(compute.ticket);
  EXPECT_EQ(Next(logic).kind, SyncAction::kQueryVersions);
}

TEST_F(SyncStepLogicTest, ABlockWhoseRowsAreGoneIsEvaluatedAgainIfTheVersionIsThere) {
  SyncStepLogic logic = MakeLogic(0);
  Join(logic, View(1, {0}), 50);
  const SyncAction evaluate = Next(logic);
  ASSERT_EQ(evaluate.kind, SyncAction::kEvaluate);
  logic.OnNoRows(evaluate.ticket);
  const SyncAction query = Next(logic);
  ASSERT_EQ(query.kind, SyncAction::kQueryVersions);
  for (uint32_t group : {0, 1}) Versions(logic, query, group, 50);
  Versions(logic, query, 2, kEveryVersion);
  const SyncAction pull = Next(logic);
  for (uint32_t group : {0, 1}) Done(logic, pull.ticket, group, PushOutcome::kNone, 50, true);
  for (uint64_t block = 0; block < 5; ++block) {
    const SyncAction again = Next(logic);
    ASSERT_EQ(again.kind, SyncAction::kEvaluate);
    EXPECT_EQ(again.block, block);
    logic.OnEvaluated(again.ticket);
  }
  EXPECT_EQ(Next(logic).kind, SyncAction::kCompute);
}

}  // namespace
}  // namespace shoal
