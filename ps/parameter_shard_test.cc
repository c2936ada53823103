#include "ps/parameter_shard.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "absl/status/status.h"

#include "base/fake_clock.h"
#include "proto/v1/identity.pb.h"
#include "proto/v1/variable.pb.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/rpc/receiver_rules.h"
#include "runtime/variables/initial_values.h"
#include "runtime/variables/slice_store.h"

namespace shoal {
namespace {

constexpr char kRunId[] = "0123456789abcdef0123456789abcdef";

class Notes : public ShardObserver {
 public:
  void OnLineage(uint64_t) override {}
  void OnEvents(SliceStoreEvents* events) override {
    steps.insert(steps.end(), events->steps.begin(), events->steps.end());
  }
  std::vector<SliceStoreEvents::Step> steps;
};

class TestPull : public PullWaiter {
 public:
  void OnPulled() override { ++ends; }
  int ends = 0;
};

// One slice of four ones, two batches a step, all on the thread of the test.
class ParameterShardTest : public testing::Test {
 protected:
  ParameterShardTest() {
    v1::VariableSpec& variable = variables_[0];
    variable.set_name("v");
    variable.add_shape(4);
    variable.set_dtype(v1::DATA_TYPE_FLOAT32);
    variable.set_update(v1::UPDATE_KIND_OPTIMIZER);
    variable.mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
    variable.mutable_initializer()->set_a(1);
    shard_.SetRules(ReceiverRules(kRunId, /*term=*/1, /*incarnation=*/1),
                    [this] { return has_lease_; });
    shard_.LearnWorkers({{0, 2}});
    Load(1);
    access_ = shard_.Enter(Sender(v1::JOB_WORKER, 1), 1).value();
  }

  static v1::Identity Sender(v1::Job job, uint64_t lineage) {
    v1::Identity sender;
    sender.set_run_id(kRunId);
    sender.set_term(1);
    sender.mutable_member()->set_job(job);
    sender.set_incarnation(2);
    sender.set_lineage(lineage);
    return sender;
  }

  void Load(uint64_t lineage) {
    const SliceTable table = SliceTable::Create(variables_, 64).value();
    SliceStoreOptions options;
    options.update.schedule.learning_rate = 0.5;
    auto store = SliceStore::Create(options, variables_, table, {0}).value();
    InitialValues source(variables_, table, /*seed=*/1);
    StepPlan::Options plan;
    plan.examples_per_epoch = 8;
    plan.batch_examples = 2;
    plan.replicas_to_aggregate = 2;
    const SliceStore::LoadOptions load{lineage, 0, StepPlan::Create(plan).value(), {}};
    ASSERT_EQ(store->Load(load, source), absl::OkStatus());
    ASSERT_TRUE(*shard_.BeginLoad(Sender(v1::JOB_CHIEF, lineage)));
    shard_.EndLoad(std::move(store));
  }

  absl::StatusOr<PushOutcome> Push(uint32_t position) {
    SlicePush push;
    push.batch = {0, position};
    push.position = position;
    push.examples = 2;
    push.data = gradient_.data();
    push.bytes = gradient_.size() * sizeof(float);
    return shard_.Push(access_, push);
  }

  void Pull(uint64_t version, absl::Duration park, TestPull* pull) {
    pull->slices = {0};
    pull->version = version;
    pull->park = park;
    shard_.Pull(access_, pull);
  }

  FakeClock clock_;
  Notes notes_;
  bool has_lease_ = true;
  std::vector<v1::VariableSpec> variables_ = std::vector<v1::VariableSpec>(1);
  ParameterShard shard_{&clock_, &notes_};
  ParameterShard::Access access_;
  const std::vector<float> gradient_ = std::vector<float>(4, 1.0f);
};

TEST_F(ParameterShardTest, APullWaitsForItsVersion) {
  TestPull pull;
  Pull(1, absl::Seconds(1), &pull);
  EXPECT_EQ(*Push(1), PushOutcome::kAccepted);
  EXPECT_EQ(pull.ends, 0);
  EXPECT_EQ(*Push(0), PushOutcome::kAccepted);
  ASSERT_EQ(pull.ends, 1);
  ASSERT_EQ(pull.status, absl::OkStatus());
  EXPECT_EQ(pull.answers[0].state, PullAnswer::kValue);
  EXPECT_EQ(pull.answers[0].value->data()[0], 0.5f);
  EXPECT_EQ(notes_.steps.size(), 1u);
  EXPECT_EQ(shard_.Tick(), absl::InfiniteFuture());
}

TEST_F(ParameterShardTest, TheTickAnswersALatePullWithTheMissingPositions) {
  TestPull soon, late;
  Pull(1, absl::Seconds(1), &soon);
  Pull(1, absl::Seconds(3), &late);
  EXPECT_EQ(*Push(1), PushOutcome::kAccepted);
  EXPECT_EQ(shard_.Tick(), clock_.Now() + absl::Seconds(1));
  EXPECT_EQ(soon.ends, 0);
  clock_.Advance(absl::Seconds(1));
  EXPECT_EQ(shard_.Tick(), clock_.Now() + absl::Seconds(2));
  ASSERT_EQ(soon.ends, 1);
  EXPECT_EQ(soon.answers[0].state, PullAnswer::kNotYet);
  EXPECT_EQ(soon.missing_positions, std::vector<uint32_t>{0});
  EXPECT_EQ(late.ends, 0);
  shard_.Drain();
  EXPECT_EQ(late.ends, 1);
}

TEST_F(ParameterShardTest, APullThatWaitedUntilTheLeaseEndedIsRefused) {
  TestPull pull;
  Pull(1, absl::Seconds(1), &pull);
  has_lease_ = false;
  clock_.Advance(absl::Seconds(1));
  shard_.Tick();
  ASSERT_EQ(pull.ends, 1);
  EXPECT_EQ(pull.status, absl::UnavailableError("this ps cannot reach the chief"));
}

TEST_F(ParameterShardTest, ALoadEndsWaitingPullsAndFencesWhatWasEnteredBefore) {
  TestPull pull;
  Pull(1, absl::Seconds(1), &pull);
  Load(2);
  ASSERT_EQ(pull.ends, 1);
  EXPECT_TRUE(absl::IsAborted(pull.status));
  EXPECT_TRUE(absl::IsAborted(Push(0).status()));
}

TEST_F(ParameterShardTest, DrainEndsWaitingPulls) {
  TestPull pull;
  Pull(1, absl::Seconds(1), &pull);
  shard_.Drain();
  ASSERT_EQ(pull.ends, 1);
  EXPECT_TRUE(absl::IsUnavailable(pull.status));
  EXPECT_TRUE(absl::IsUnavailable(Push(0).status()));
}

}  // namespace
}  // namespace shoal
