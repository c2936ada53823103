// Tests a worker's store on the shard of a ps in the same process, with a fake chief.
#include "ps/shard_variable_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/notification.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/parameter_server.h"
#include "ps/parameter_service_impl.h"
#include "ps/parameter_shard.h"
#include "runtime/plan/slice_table.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/variables/exchange_groups.h"

namespace shoal {
namespace {

using testing::Each;

constexpr char kRunId[] = "0123456789abcdef0123456789abcdef";

// One variable of 32 ones in two slices; plain SGD with learning rate 0.5; two batches of two
// examples a step.
v1::LoadSlicesRequest LoadRequest(uint64_t lineage) {
  v1::LoadSlicesRequest request;
  request.mutable_identity()->set_run_id(kRunId);
  request.mutable_identity()->set_term(1);
  request.mutable_identity()->mutable_member()->set_job(v1::JOB_CHIEF);
  request.mutable_identity()->set_lineage(lineage);
  request.mutable_run()->mutable_optimizer()->mutable_sgd();
  request.mutable_run()->mutable_optimizer()->set_learning_rate(0.5);
  request.mutable_run()->mutable_sync()->set_sync_replicas(true);
  request.mutable_run()->set_max_steps(1000);
  request.mutable_run()->mutable_checkpoint()->set_save_every(100000);
  v1::VariableSpec* variable = request.add_variables();
  variable->set_name("w");
  variable->add_shape(2);
  variable->add_shape(16);
  variable->set_dtype(v1::DATA_TYPE_FLOAT32);
  variable->set_trainable(true);
  variable->set_update(v1::UPDATE_KIND_OPTIMIZER);
  variable->mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
  variable->mutable_initializer()->set_a(1);
  request.mutable_shard_map()->set_num_ps_tasks(1);
  request.mutable_shard_map()->set_slice_bytes(64);
  for (int slice = 0; slice < 2; ++slice) request.mutable_shard_map()->add_owner(0);
  request.mutable_plan()->set_examples_per_epoch(8);
  request.mutable_plan()->set_batch_examples(2);
  request.mutable_plan()->set_replicas_to_aggregate(2);
  return request;
}

// The result that `done` received.
struct Outcome {
  Notification done;
  absl::Status status;
  std::vector<PushOutcome> outcomes;
  std::vector<PulledSlice> pulls;
  std::thread::id thread;
};

class ShardVariableStoreTest : public testing::Test {
 protected:
  ShardVariableStoreTest() {
    ParameterServer::Options options;
    options.chief = chief_.client();
    options.clock = &clock_;
    options.session.nonce = "ps";
    options.session.lease = absl::Seconds(10);
    options.session.register_patience = absl::Seconds(300);
    options.address = "here";
    options.session.heartbeat_wait = absl::Milliseconds(20);
    server_ = std::move(ParameterServer::Create(options).value());
    EXPECT_TRUE(server_->Start().ok());
    server_->shard()->LearnWorkers({{0, 2}});
    Load(1);
    const v1::LoadSlicesRequest request = LoadRequest(1);
    const std::vector<v1::VariableSpec> variables(request.variables().begin(),
                                                  request.variables().end());
    const SliceTable table = std::move(SliceTable::Create(variables, 64).value());
    ShardVariableStore::Options store;
    store.run_id = kRunId;
    store.incarnation = 2;
    store.groups = MakeExchangeGroups(table, {0, 0});
    store_ = std::make_unique<ShardVariableStore>(server_->shard(), std::move(store), &clock_);
    SetView(1);
    for (uint32_t slice : store_->groups().front().slices) {
      push_.push_back(gradient_.data() + 16 * slice);
      pull_.push_back(values_.data() + 16 * slice);
    }
  }
  ~ShardVariableStoreTest() override {
    store_.reset();
    EXPECT_TRUE(server_->Stop().ok());
  }

  void Load(uint64_t lineage) {
    v1::LoadSlicesResponse response;
    EXPECT_TRUE(server_->parameter_service()->LoadSlices(LoadRequest(lineage), &response).ok());
  }
  void SetView(uint64_t lineage) { store_->SetView({1, lineage, lineage, {"here"}, {1}}); }

  Exchange PushOf(uint32_t position) {
    Exchange exchange;
    exchange.lineage = 1;
    exchange.push = true;
    exchange.batch = {0, position};
    exchange.position = position;
    exchange.batch_examples = 2;
    exchange.push_data = push_.data();
    return exchange;
  }
  Exchange PullOf(uint64_t version, absl::Duration park) {
    Exchange exchange;
    exchange.lineage = 1;
    exchange.pull = true;
    exchange.pull_version = version;
    exchange.pull_data = pull_.data();
    exchange.park = park;
    return exchange;
  }
  void Start(const Exchange& exchange, Outcome* outcome) {
    store_->Start(exchange, [outcome](const ExchangeResult& result) {
      outcome->status = result.status;
      outcome->outcomes.assign(result.outcomes.begin(), result.outcomes.end());
      outcome->pulls.assign(result.pulls.begin(), result.pulls.end());
      outcome->thread = std::this_thread::get_id();
      outcome->done.Notify();
    });
  }
  void Run(const Exchange& exchange, Outcome* outcome) {
    Start(exchange, outcome);
    ASSERT_TRUE(outcome->done.WaitFor(absl::Seconds(20)));
  }

  RealClock clock_;
  FakeChief chief_;
  std::unique_ptr<ParameterServer> server_;
  std::unique_ptr<ShardVariableStore> store_;
  std::vector<float> gradient_ = std::vector<float>(32, 1.0f);
  std::vector<float> values_ = std::vector<float>(32);
  std::vector<const void*> push_;
  std::vector<float*> pull_;
};

TEST_F(ShardVariableStoreTest, AParkedPullGetsTheStepThatALaterPushCompletes) {
  Outcome first, pulled, second;
  Run(PushOf(0), &first);
  EXPECT_THAT(first.outcomes, Each(PushOutcome::kAccepted));
  Start(PullOf(1, absl::Seconds(20)), &pulled);
  EXPECT_FALSE(pulled.done.WaitFor(absl::Milliseconds(20)));
  Run(PushOf(1), &second);
  ASSERT_TRUE(pulled.done.WaitFor(absl::Seconds(20)));
  EXPECT_TRUE(pulled.status.ok()) << pulled.status;
  EXPECT_THAT(values_, Each(0.5f));
  EXPECT_EQ(pulled.pulls[0].version, 1u);
  EXPECT_NE(pulled.thread, std::this_thread::get_id());
}

TEST_F(ShardVariableStoreTest, APullThatTimesOutNamesWhatIsMissing) {
  Outcome pulled;
  Run(PullOf(1, absl::Milliseconds(5)), &pulled);
  EXPECT_TRUE(pulled.status.ok()) << pulled.status;
  EXPECT_FALSE(pulled.pulls[0].has_value);
  EXPECT_EQ(pulled.pulls[0].version, 0u);
}

TEST_F(ShardVariableStoreTest, ARepeatedContributionIsADuplicate) {
  Outcome first, again;
  Run(PushOf(0), &first);
  Run(PushOf(0), &again);
  EXPECT_THAT(again.outcomes, Each(PushOutcome::kDuplicate));
}

TEST_F(ShardVariableStoreTest, AnExchangeOfAnotherLineageIsAborted) {
  Load(2);
  SetView(2);
  Outcome pushed;
  Run(PushOf(0), &pushed);
  EXPECT_TRUE(absl::IsAborted(pushed.status)) << pushed.status;
}

TEST_F(ShardVariableStoreTest, AnExchangeAheadOfTheShardWaitsForIt) {
  SetView(2);
  Exchange push = PushOf(0);
  push.lineage = 2;
  Outcome pushed;
  Start(push, &pushed);
  EXPECT_FALSE(pushed.done.WaitFor(absl::Milliseconds(30)));
  Load(2);
  ASSERT_TRUE(pushed.done.WaitFor(absl::Seconds(20)));
  EXPECT_TRUE(pushed.status.ok()) << pushed.status;
  EXPECT_THAT(pushed.outcomes, Each(PushOutcome::kAccepted));
}

TEST_F(ShardVariableStoreTest, AContributionThatDoesNotFitIsAnError) {
  const std::vector<uint64_t> bytes = {60, 60};
  Exchange push = PushOf(0);
  push.push_bytes = bytes.data();
  Outcome pushed;
  Run(push, &pushed);
  EXPECT_TRUE(absl::IsInternal(pushed.status)) << pushed.status;
}

TEST_F(ShardVariableStoreTest, AfterShutdownExchangesAreCancelled) {
  store_->Shutdown();
  Outcome pushed;
  Run(PushOf(0), &pushed);
  EXPECT_TRUE(absl::IsCancelled(pushed.status)) << pushed.status;
}

}  // namespace
}  // namespace shoal
