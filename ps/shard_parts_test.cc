// Tests a shard whose slices are in several parts that several threads use.
#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"

#include "base/clock.h"
#include "base/notification.h"
#include "proto/v1/identity.pb.h"
#include "proto/v1/variable.pb.h"
#include "ps/parameter_shard.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/rpc/receiver_rules.h"
#include "runtime/variables/initial_values.h"
#include "runtime/variables/partitioned_store.h"

namespace shoal {
namespace {

constexpr char kRunId[] = "0123456789abcdef0123456789abcdef";
constexpr uint32_t kNumSlices = 4;
constexpr uint32_t kNumWorkers = 4;
constexpr uint64_t kNumSteps = 200;

v1::Identity Sender(v1::Job job) {
  v1::Identity sender;
  sender.set_run_id(kRunId);
  sender.set_term(1);
  sender.mutable_member()->set_job(job);
  sender.set_incarnation(2);
  sender.set_lineage(1);
  return sender;
}

// An observer without a lock, because the shard makes one call at a time.
class Notes : public ShardObserver {
 public:
  void OnLineage(uint64_t) override {}
  void OnEvents(SliceStoreEvents* events) override {
    for (const SliceStoreEvents::Step& step : events->steps) {
      EXPECT_EQ(step.step, ++last_step);
      EXPECT_EQ(step.loss_sum, 1.0 + 2 + 3 + 4);
    }
    for (const SliceStoreEvents::CutPart& part : events->cuts) {
      EXPECT_EQ(part.version, part.cut);
      const size_t count = ++cut_parts[part.cut];
      EXPECT_EQ(part.completes_cut, count == kNumSlices) << "cut " << part.cut;
    }
  }
  uint64_t last_step = 0;
  std::map<uint64_t, size_t> cut_parts;
};

class Waiter : public PullWaiter {
 public:
  void OnPulled() override { done.Notify(); }
  Notification done;
};

class ShardPartsTest : public testing::Test {
 protected:
  ShardPartsTest() {
    for (uint32_t i = 0; i < kNumSlices; ++i) {
      v1::VariableSpec& variable = variables_.emplace_back();
      variable.set_name(std::string(1, static_cast<char>('a' + i)));
      variable.add_shape(16);
      variable.set_dtype(v1::DATA_TYPE_FLOAT32);
      variable.set_update(v1::UPDATE_KIND_OPTIMIZER);
      variable.mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
    }
    const SliceTable table = SliceTable::Create(variables_, 64).value();
    SliceStoreOptions options;
    options.update.schedule.learning_rate = 1;
    auto store = PartitionedStore::Create(options, variables_, table, {{0, 3}, {1}, {2}}).value();
    InitialValues source(variables_, table, /*seed=*/1);
    StepPlan::Options plan;
    plan.examples_per_epoch = 1000 * kNumWorkers;
    plan.batch_examples = 1;
    plan.replicas_to_aggregate = kNumWorkers;
    EXPECT_EQ(store->Load({1, 0, StepPlan::Create(plan).value(), {}}, source), absl::OkStatus());
    shard_.SetRules(ReceiverRules(kRunId, /*term=*/1, /*incarnation=*/1), [] { return true; });
    shard_.LearnWorkers({{0, 2}});
    EXPECT_TRUE(*shard_.BeginLoad(Sender(v1::JOB_CHIEF)));
    shard_.EndLoad(std::move(store));
    access_ = shard_.Enter(Sender(v1::JOB_WORKER), 1).value();
  }

  PushOutcome Push(uint32_t slice, uint64_t step, uint32_t position) {
    const std::vector<float> gradient(16, static_cast<float>(position));
    const BatchReport report{1.0 + position, 0, 0, 1, {}};
    SlicePush push;
    push.slice = slice;
    push.batch = {0, step * kNumWorkers + position};
    push.step = step;
    push.position = position;
    push.examples = 1;
    push.data = gradient.data();
    push.bytes = gradient.size() * sizeof(float);
    push.report = &report;
    return shard_.Push(access_, push).value();
  }

  void Pull(uint64_t version, absl::Duration park, Waiter* waiter) {
    waiter->slices = {3, 2, 1, 0};
    waiter->version = version;
    waiter->park = park;
    shard_.Pull(access_, waiter);
  }

  void Work(uint32_t position) {
    for (uint64_t step = 0; step < kNumSteps; ++step) {
      for (uint32_t slice = 0; slice < kNumSlices; ++slice) {
        while (Push(slice, step, position) == PushOutcome::kWithheld) std::this_thread::yield();
      }
      Waiter waiter;
      Pull(step + 1, absl::Seconds(20), &waiter);
      waiter.done.Wait();
      ASSERT_EQ(waiter.status, absl::OkStatus());
      for (const PullAnswer& answer : waiter.answers) {
        ASSERT_EQ(answer.state, PullAnswer::kValue);
        ASSERT_EQ(answer.value->data()[15], -1.5f * static_cast<float>(step + 1));
      }
    }
  }

  const RealClock clock_;
  std::vector<v1::VariableSpec> variables_;
  Notes notes_;
  ParameterShard shard_{&clock_, &notes_};
  ParameterShard::Access access_;
};

// A pull of a row, which counts how often it was asked for the memory of its values.
class RowWaiter : public PullWaiter {
 public:
  explicit RowWaiter(uint64_t wanted_version) {
    slices = {0};
    version = wanted_version;
    answers.resize(1);
    rows.push_back({&key_, 1, nullptr});
  }
  void OnPulled() override {}
  void AllocateRows() override {
    ++num_allocations;
    rows[0].values = values_;
  }
  int num_allocations = 0;

 private:
  const uint64_t key_ = 7;
  float values_[16];
};

TEST(RowsOfWaitingPullsTest, APullThatWaitsOrComesTooEarlyNeedsNoMemoryForValues) {
  v1::VariableSpec item;
  item.set_name("item");
  item.add_shape(16);
  item.set_dtype(v1::DATA_TYPE_FLOAT32);
  item.set_update(v1::UPDATE_KIND_OPTIMIZER);
  item.mutable_table()->set_buckets(1);
  const SliceTable table = SliceTable::Create({item}, 64).value();
  SliceStoreOptions options;
  options.update.schedule.learning_rate = 1;
  const auto store = PartitionedStore::Create(options, {&item, 1}, table, {{0}}).value();
  InitialValues source({&item, 1}, table, /*seed=*/1);
  StepPlan::Options plan;
  plan.examples_per_epoch = plan.batch_examples = plan.replicas_to_aggregate = 1;
  ASSERT_EQ(store->Load({1, 0, StepPlan::Create(plan).value(), {}}, source), absl::OkStatus());
  ShardPart part(0, store.get());
  MutexLock lock(&part.mutex);
  RowWaiter early(/*wanted_version=*/1), ready(/*wanted_version=*/0);
  EXPECT_FALSE(part.IsComplete(&early));
  part.AddWaiting(&early);
  ShardPart::Waiters late;
  part.CollectLate(absl::InfiniteFuture(), &late);
  EXPECT_EQ(late.size(), 1u);
  EXPECT_EQ(early.answers[0].state, PullAnswer::kNotYet);
  EXPECT_EQ(early.num_allocations, 0);
  EXPECT_TRUE(part.IsComplete(&ready));
  part.Answer(&ready);
  EXPECT_EQ(ready.answers[0].state, PullAnswer::kValue);
  EXPECT_EQ(ready.num_allocations, 1);
}

TEST_F(ShardPartsTest, StepsCutsAndPullsAreThoseOfOneStore) {
  constexpr uint64_t kCut = kNumSteps / 2;
  EXPECT_EQ(shard_.Command(Sender(v1::JOB_CHIEF),
                           [](PartitionedStore* store) { store->RequestCut(kCut); }),
            absl::OkStatus());
  std::vector<std::thread> workers;
  for (uint32_t i = 0; i < kNumWorkers; ++i) workers.emplace_back([this, i] { Work(i); });
  std::atomic<bool> done{false};
  std::thread chief([&] {
    for (uint64_t number = 1; !done; ++number) {
      WithholdAnswer withheld;
      EXPECT_EQ(shard_.Command(Sender(v1::JOB_CHIEF),
                               [&](PartitionedStore* store) {
                                 const uint64_t newest = store->newest_version(0);
                                 store->RequestCut(newest + 2);
                                 const BatchKey batch{0, (newest + 1) * kNumWorkers};
                                 withheld = store->Withhold(batch, number);
                                 store->Decide(batch, number, /*skip=*/false);
                               }),
                absl::OkStatus());
      EXPECT_FALSE(withheld.ignored);
      std::this_thread::yield();
    }
  });
  for (std::thread& worker : workers) worker.join();
  done = true;
  chief.join();
  EXPECT_EQ(notes_.last_step, kNumSteps);
  for (const auto& [cut, parts] : notes_.cut_parts) EXPECT_EQ(parts, kNumSlices) << "cut " << cut;
  EXPECT_EQ(notes_.cut_parts.count(kCut), 1u);
}

TEST_F(ShardPartsTest, APullWaitsForTheLastOfItsPartsAndNoLonger) {
  for (const uint32_t slice : {0u, 1u, 3u}) {
    for (uint32_t i = 0; i < kNumWorkers; ++i) Push(slice, 0, i);
  }
  Waiter in_time, at_once;
  Pull(1, absl::ZeroDuration(), &at_once);
  ASSERT_TRUE(at_once.done.WaitFor(absl::Seconds(20)));
  EXPECT_EQ(at_once.answers[0].state, PullAnswer::kValue);
  EXPECT_EQ(at_once.answers[1].state, PullAnswer::kNotYet);
  EXPECT_EQ(at_once.missing_positions, (std::vector<uint32_t>{0, 1, 2, 3}));
  Pull(1, absl::Hours(1), &in_time);
  for (uint32_t i = 0; i < kNumWorkers; ++i) Push(2, 0, i);
  ASSERT_TRUE(in_time.done.WaitFor(absl::Seconds(20)));
  EXPECT_EQ(in_time.answers[1].state, PullAnswer::kValue);
}

TEST_F(ShardPartsTest, DrainEndsPullsInWhicheverPartTheyWait) {
  Waiter first, last;
  Pull(1, absl::Hours(1), &first);
  for (const uint32_t slice : {0u, 1u, 3u}) {
    for (uint32_t i = 0; i < kNumWorkers; ++i) Push(slice, 0, i);
  }
  Pull(1, absl::Hours(1), &last);
  shard_.Drain();
  for (Waiter* waiter : {&first, &last}) {
    ASSERT_TRUE(waiter->done.WaitFor(absl::Seconds(20)));
    EXPECT_TRUE(absl::IsUnavailable(waiter->status));
  }
}

}  // namespace
}  // namespace shoal
