// Tests ps tasks and workers' stores with a fake chief, over gRPC and inside one process.
#include "ps/parameter_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

#include "base/file_system.h"
#include "base/notification.h"
#include "ps/parameter_service_impl.h"
#include "ps/ps_cluster_testing.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/exchange/remote_variable_store.h"
#include "runtime/plan/slice_table.h"
#include "runtime/transport/faulty_bulk_channel.h"
#include "runtime/variables/exchange_groups.h"

namespace shoal {
namespace {

SliceTable Table() {
  const v1::LoadSlicesRequest request = PsLoadRequest(1, true);
  const std::vector<v1::VariableSpec> variables(request.variables().begin(),
                                                request.variables().end());
  return std::move(SliceTable::Create(variables, 512).value());
}

// A worker's store with buffers for all slices.
class Worker {
 public:
  Worker(PsTestCluster* cluster, uint32_t index, BulkFaults* faults = nullptr)
      : table_(Table()), store(table_, Options(cluster, index, faults), &cluster->clock) {
    for (const Slice& slice : table_.slices()) {
      gradients.emplace_back(slice.num_elements);
      values.emplace_back(slice.num_elements);
    }
  }

  struct Outcome {
    absl::Status status;
    std::vector<PushOutcome> outcomes;
    std::vector<PulledSlice> pulls;
    std::vector<uint32_t> missing;
  };

  // One exchange of every group at the same time; the outcomes by group.
  std::vector<Outcome> ExchangeAll(Exchange exchange) {
    const size_t num_groups = store.groups().size();
    std::vector<Outcome> results(num_groups);
    std::vector<std::unique_ptr<Notification>> done;
    std::vector<std::vector<const void*>> push_data(num_groups);
    std::vector<std::vector<float*>> pull_data(num_groups);
    std::vector<uint64_t> pulled_versions(table_.size(), pulled_version);
    for (uint32_t g = 0; g < num_groups; ++g) {
      for (const uint32_t slice : store.groups()[g].slices) {
        push_data[g].push_back(gradients[slice].data());
        pull_data[g].push_back(values[slice].data());
      }
      exchange.group = g;
      exchange.push_data = push_data[g].data();
      exchange.pull_data = pull_data[g].data();
      exchange.pulled_versions = pulled_versions.data();
      done.push_back(std::make_unique<Notification>());
      store.Start(exchange, [result = &results[g], end = done[g].get()](const ExchangeResult& r) {
        result->status = r.status;
        result->outcomes.assign(r.outcomes.begin(), r.outcomes.end());
        result->pulls.assign(r.pulls.begin(), r.pulls.end());
        result->missing.assign(r.missing_positions.begin(), r.missing_positions.end());
        end->Notify();
      });
    }
    for (auto& end : done) end->Wait();
    return results;
  }

  static Exchange Push(uint64_t step, uint32_t position, uint64_t lineage = 1) {
    Exchange exchange;
    exchange.lineage = lineage;
    exchange.push = true;
    exchange.batch = {static_cast<uint32_t>(step / 2), step % 2 * 2 + position};
    exchange.step = step;
    exchange.position = position;
    exchange.batch_examples = 2;
    exchange.report = {3.0 + position, 0.5, 1, 2, {}};
    return exchange;
  }
  static Exchange Pull(uint64_t version, uint64_t lineage = 1) {
    Exchange exchange;
    exchange.lineage = lineage;
    exchange.pull = true;
    exchange.pull_version = version;
    return exchange;
  }

  void SetGradients(float value) {
    for (auto& gradient : gradients) std::fill(gradient.begin(), gradient.end(), value);
  }
  // Returns whether all values are `expected`, exactly.
  bool AllValuesAre(float expected) const {
    for (const auto& value : values) {
      for (const float v : value) {
        if (v != expected) return false;
      }
    }
    return true;
  }

 private:
  RemoteVariableStore::Options Options(PsTestCluster* cluster, uint32_t index, BulkFaults* faults) {
    RemoteVariableStore::Options options;
    options.run_id = "0123456789abcdef0123456789abcdef";
    options.worker_index = index;
    options.incarnation = kTestWorker0 + index;
    options.groups = MakeExchangeGroups(table_, {0, 1, 0, 1, 0}, 1024);
    options.connect = [cluster, faults](const std::string& address) {
      std::unique_ptr<BulkChannel> channel = cluster->Connect(address);
      if (faults != nullptr) channel = NewFaultyBulkChannel(std::move(channel), faults);
      return channel;
    };
    return options;
  }

  const SliceTable table_;

 public:
  uint64_t pulled_version = 0;
  std::vector<std::vector<float>> gradients;  // By slice.
  std::vector<std::vector<float>> values;
  RemoteVariableStore store;
};

void ExpectAll(const std::vector<Worker::Outcome>& results, PushOutcome outcome) {
  for (const Worker::Outcome& result : results) {
    EXPECT_TRUE(result.status.ok()) << result.status;
    EXPECT_THAT(result.outcomes, testing::Each(outcome));
  }
}

class ParameterServerTest : public testing::TestWithParam<PsForm> {
 protected:
  // Two workers, `steps` steps: worker p pushes (p + 1) / 4 everywhere and pulls the next version.
  void TrainAndExpectExactValues(uint64_t steps, BulkFaults* faults) {
    ASSERT_EQ(cluster_.Load(1), absl::OkStatus());
    Worker first(&cluster_, 0, faults);
    Worker second(&cluster_, 1);
    first.store.SetView(cluster_.View(1));
    second.store.SetView(cluster_.View(1));
    first.SetGradients(0.25f);
    second.SetGradients(0.5f);
    for (uint64_t step = 0; step < steps; ++step) {
      // In the wrong order, so that one contribution waits for its turn.
      ExpectAll(second.ExchangeAll(Worker::Push(step, 1)), PushOutcome::kAccepted);
      Exchange exchange = Worker::Push(step, 0);
      exchange.pull = true;
      exchange.pull_version = step + 1;
      exchange.park = absl::Seconds(10);
      for (const Worker::Outcome& result : first.ExchangeAll(exchange)) {
        ASSERT_TRUE(result.status.ok()) << result.status;
        for (const PulledSlice& pull : result.pulls) EXPECT_TRUE(pull.has_value);
      }
      const float expected = 1.0f - 0.1875f * static_cast<float>(step + 1);
      ASSERT_TRUE(first.AllValuesAre(expected)) << "step " << step;
      second.ExchangeAll(Worker::Pull(step + 1));
      ASSERT_TRUE(second.AllValuesAre(expected)) << "step " << step;
    }
    cluster_.chief.WaitUntil([&] { return cluster_.chief.steps.size() == steps; });
    for (const auto& [step, report] : cluster_.chief.steps) {
      EXPECT_EQ(report.loss_sum(), 7.0) << step;
      EXPECT_EQ(report.examples(), 4u);
      EXPECT_EQ(report.correct(), 2u);
      EXPECT_EQ(report.regularization(), 0.5);
    }
  }

  PsTestCluster cluster_{GetParam()};
};

INSTANTIATE_TEST_SUITE_P(Forms, ParameterServerTest, AllPsForms(), PsFormName);

TEST_P(ParameterServerTest, StepsOfTwoWorkersAreExact) { TrainAndExpectExactValues(5, nullptr); }

TEST_P(ParameterServerTest, ALostReplyChangesNothing) {
  BulkFaults faults;
  faults.drop_replies = 5;
  TrainAndExpectExactValues(3, &faults);
  EXPECT_EQ(faults.drop_replies, 0);
}

TEST_P(ParameterServerTest, ARepeatedRequestCountsOnce) {
  BulkFaults faults;
  faults.repeat_requests = 5;
  TrainAndExpectExactValues(3, &faults);
  EXPECT_EQ(faults.repeat_requests, 0);
}

TEST_P(ParameterServerTest, ATruncatedPayloadIsSentAgain) {
  BulkFaults faults;
  faults.truncate_payloads = 3;
  TrainAndExpectExactValues(3, &faults);
  EXPECT_EQ(faults.truncate_payloads, 0);
}

TEST_P(ParameterServerTest, DamagedBytesAreSentAgain) {
  if (GetParam() != PsForm::kGrpc) return;  // Memory needs no checksums.
  BulkFaults faults;
  faults.corrupt_payloads = 3;
  faults.corrupt_replies = 3;
  TrainAndExpectExactValues(3, &faults);
  EXPECT_EQ(faults.corrupt_payloads, 0);
  EXPECT_EQ(faults.corrupt_replies, 0);
}

TEST_P(ParameterServerTest, AsyncContributionsAreAppliedOnArrivalAndOnce) {
  ASSERT_EQ(cluster_.Load(1, false), absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  worker.SetGradients(0.5f);
  for (uint64_t update = 0; update < 4; ++update) {
    Exchange exchange = Worker::Push(0, 0);
    exchange.batch = {0, update};
    exchange.pull = true;
    worker.pulled_version = update;
    ExpectAll(worker.ExchangeAll(exchange), PushOutcome::kAccepted);
    EXPECT_TRUE(worker.AllValuesAre(1.0f - 0.25f * static_cast<float>(update + 1)));
    ExpectAll(worker.ExchangeAll(exchange), PushOutcome::kDuplicate);
    EXPECT_TRUE(worker.AllValuesAre(1.0f - 0.25f * static_cast<float>(update + 1)));
  }
}

TEST_P(ParameterServerTest, ACutForgetsTheEpochsThatACheckpointContainsAndCountsTheReportedSteps) {
  const std::string root =
      JoinPath(testing::TempDir(), absl::StrCat("forget", static_cast<int>(GetParam())));
  ASSERT_TRUE(RemoveTree(*cluster_.file_system, root).ok());
  const auto checkpoints =
      std::move(CheckpointDirectory::Open(*cluster_.file_system, root).value());
  ASSERT_EQ(
      cluster_.Load(1, false,
                    [&](v1::LoadSlicesRequest* request) { request->set_checkpoint_root(root); }),
      absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  worker.SetGradients(0.5f);
  Exchange exchange = Worker::Push(0, 0);
  for (const BatchKey& batch : {BatchKey{0, 1}, BatchKey{1, 0}}) {
    exchange.batch = batch;
    ExpectAll(worker.ExchangeAll(exchange), PushOutcome::kAccepted);
  }
  for (const auto& server : cluster_.servers) {
    v1::RequestCutRequest cut;
    *cut.mutable_identity() = PsLoadRequest(1, false).identity();
    cut.set_version(2);
    cut.set_first_kept_epoch(1);
    v1::RequestCutResponse cut_response;
    ASSERT_EQ(server->parameter_service()->RequestCut(cut, &cut_response), absl::OkStatus());
  }
  exchange.batch = {0, 0};  // would be new, if the epoch had not been forgotten as a whole
  ExpectAll(worker.ExchangeAll(exchange), PushOutcome::kDuplicate);
  cluster_.chief.WaitUntil([&] { return cluster_.chief.shards.size() == kNumTestPs; });
  uint64_t reported_steps = 0;
  for (const v1::ReportShardRequest& shard : cluster_.chief.shards) {
    EXPECT_EQ(shard.error(), "");
    reported_steps += shard.reported_steps();
  }
  EXPECT_EQ(reported_steps, 2u);  // the count of the ps with the report slice
}

TEST_P(ParameterServerTest, ATimedOutPullNamesTheMissingPositions) {
  ASSERT_EQ(cluster_.Load(1), absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  Exchange exchange = Worker::Push(0, 1);
  exchange.pull = true;
  exchange.pull_version = 1;
  exchange.park = absl::Milliseconds(30);
  for (const Worker::Outcome& result : worker.ExchangeAll(exchange)) {
    EXPECT_TRUE(result.status.ok());
    EXPECT_THAT(result.missing, testing::ElementsAre(0));
    for (const PulledSlice& pull : result.pulls) {
      EXPECT_FALSE(pull.has_value);
      EXPECT_EQ(pull.version, 0u);
    }
  }
}

TEST_P(ParameterServerTest, NonFiniteContributionsAreNamedAndNotWaitedFor) {
  ASSERT_EQ(cluster_.Load(1), absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  worker.SetGradients(std::numeric_limits<float>::quiet_NaN());
  Exchange exchange = Worker::Push(0, 0);
  exchange.pull = true;
  exchange.pull_version = 1;
  exchange.park = absl::Hours(1);
  ExpectAll(worker.ExchangeAll(exchange), PushOutcome::kNonFinite);
}

TEST_P(ParameterServerTest, VersionsOnlyAnswersAtOnceAndCopiesNothing) {
  ASSERT_EQ(cluster_.Load(1), absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  Exchange exchange = Worker::Pull(7);
  exchange.versions_only = true;
  exchange.park = absl::Hours(1);
  for (const Worker::Outcome& result : worker.ExchangeAll(exchange)) {
    for (const PulledSlice& pull : result.pulls) {
      EXPECT_EQ(pull.version, 0u);
      EXPECT_FALSE(pull.has_value);
    }
  }
  EXPECT_TRUE(worker.AllValuesAre(0.0f));
}

TEST_P(ParameterServerTest, AnotherLineageEndsExchangesUnderWayAndStartsAfresh) {
  ASSERT_EQ(cluster_.Load(1), absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  worker.SetGradients(1.0f);
  ExpectAll(worker.ExchangeAll(Worker::Push(0, 0)), PushOutcome::kAccepted);
  std::thread rolls_back([&] {
    ASSERT_EQ(cluster_.Load(2), absl::OkStatus());
    worker.store.SetView(cluster_.View(2));
  });
  Exchange parked = Worker::Pull(1);
  parked.park = absl::Seconds(20);
  for (const Worker::Outcome& result : worker.ExchangeAll(parked)) {
    EXPECT_TRUE(absl::IsAborted(result.status)) << result.status;
  }
  rolls_back.join();
  // Nothing of the old lineage is left: position 0 is taken again.
  ExpectAll(worker.ExchangeAll(Worker::Push(0, 0, 2)), PushOutcome::kAccepted);
  for (const Worker::Outcome& result : worker.ExchangeAll(Worker::Push(0, 1, 1))) {
    EXPECT_TRUE(absl::IsAborted(result.status));
  }
}

TEST_P(ParameterServerTest, ShutdownEndsExchangesThatFindNoPs) {
  Worker worker(&cluster_, 0);
  StoreView view = cluster_.View(1);
  view.ps_addresses = {"", ""};
  worker.store.SetView(view);
  std::thread stops([&] { worker.store.Shutdown(); });
  for (const Worker::Outcome& result : worker.ExchangeAll(Worker::Pull(0))) {
    EXPECT_TRUE(absl::IsCancelled(result.status));
  }
  stops.join();
}

TEST_P(ParameterServerTest, ClippingByGlobalNormWaitsForTheChiefsScale) {
  cluster_.chief.norm_scale = 0.5;
  cluster_.chief.slices_with_norm = 5;
  ASSERT_TRUE(cluster_
                  .Load(1, true,
                        [](v1::LoadSlicesRequest* request) {
                          request->mutable_run()->mutable_optimizer()->set_clip_by_global_norm(1);
                        })
                  .ok());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  worker.SetGradients(0.5f);
  ExpectAll(worker.ExchangeAll(Worker::Push(0, 0)), PushOutcome::kAccepted);
  Exchange exchange = Worker::Push(0, 1);
  exchange.pull = true;
  exchange.pull_version = 1;
  exchange.park = absl::Seconds(20);
  worker.ExchangeAll(exchange);
  EXPECT_TRUE(worker.AllValuesAre(1.0f - 0.5f * 0.5f * 0.5f));
  cluster_.chief.WaitUntil([&] { return cluster_.chief.norms[0].size() == 5; });
  EXPECT_EQ(cluster_.chief.norms[0][0], 128 * 0.25);
}

TEST_P(ParameterServerTest, LoadingTheSameLineageAgainKeepsTheState) {
  ASSERT_EQ(cluster_.Load(1), absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  ExpectAll(worker.ExchangeAll(Worker::Push(0, 0)), PushOutcome::kAccepted);
  ASSERT_EQ(cluster_.Load(1), absl::OkStatus());
  ExpectAll(worker.ExchangeAll(Worker::Push(0, 0)), PushOutcome::kDuplicate);
  ASSERT_EQ(cluster_.Load(3), absl::OkStatus());
  EXPECT_TRUE(absl::IsAborted(cluster_.Load(2)));
}

// A receiver of a later count assumes that the reports of the earlier steps are known.
TEST_P(ParameterServerTest, ARepeatedAnswerToALoadCountsNoStepThatCameAfterIt) {
  ASSERT_EQ(cluster_.Load(1, false), absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  ExpectAll(worker.ExchangeAll(Worker::Push(0, 0)), PushOutcome::kAccepted);
  for (const auto& server : cluster_.servers) {
    v1::LoadSlicesResponse response;
    ASSERT_EQ(server->parameter_service()->LoadSlices(PsLoadRequest(1, false), &response),
              absl::OkStatus());
    EXPECT_EQ(response.reported_steps(), 0u);
    EXPECT_GT(response.bytes(), 0u);
  }
}

TEST_P(ParameterServerTest, BadLoadsAreRefusedAndNamed) {
  using Request = v1::LoadSlicesRequest;
  const auto load = [&](const std::function<void(Request*)>& change) {
    return cluster_.Load(1, true, change);
  };
  EXPECT_THAT(load([](Request* r) { r->mutable_shard_map()->add_owner(0); }).message(),
              testing::HasSubstr("shard_map.owner"));
  EXPECT_EQ(load([](Request* r) { r->mutable_shard_map()->set_slice_bytes(3); }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(load([](Request* r) { r->mutable_variables(0)->set_shape(0, -4); }).code(),
            absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(
      load([](Request* r) { r->mutable_variables(0)->set_shape(0, int64_t{1} << 39); }).code(),
      absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(load([](Request* r) { r->clear_plan(); }).code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(load([](Request* r) { r->mutable_identity()->set_run_id("x"); }).code(),
            absl::StatusCode::kUnavailable);
  const auto as_worker = [](Request* r) {
    r->mutable_identity()->mutable_member()->set_job(v1::JOB_WORKER);
  };
  EXPECT_EQ(load(as_worker).code(), absl::StatusCode::kPermissionDenied);
  EXPECT_TRUE(load(nullptr).ok());
}

TEST_P(ParameterServerTest, WithheldBatchesAreRefusedUntilDecided) {
  ASSERT_EQ(cluster_.Load(1), absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  worker.SetGradients(0.5f);
  v1::WithholdBatchRequest withhold;
  *withhold.mutable_identity() = PsLoadRequest(1, true).identity();
  withhold.set_number(1);
  v1::DecideBatchRequest decide;
  *decide.mutable_identity() = withhold.identity();
  decide.set_number(1);
  decide.set_skip(true);
  for (const auto& server : cluster_.servers) {
    v1::WithholdBatchResponse response;
    ASSERT_TRUE(server->parameter_service()->WithholdBatch(withhold, &response).ok());
    EXPECT_TRUE(response.none_has());
  }
  ExpectAll(worker.ExchangeAll(Worker::Push(0, 0)), PushOutcome::kWithheld);
  ExpectAll(worker.ExchangeAll(Worker::Push(0, 1)), PushOutcome::kAccepted);
  for (const auto& server : cluster_.servers) {
    v1::DecideBatchResponse response;
    ASSERT_TRUE(server->parameter_service()->DecideBatch(decide, &response).ok());
  }
  // The step continues without the skipped batch.
  worker.ExchangeAll(Worker::Pull(1));
  EXPECT_TRUE(worker.AllValuesAre(0.75f));
}

TEST_P(ParameterServerTest, ACutIsWrittenReportedAndRestored) {
  const std::string root =
      JoinPath(testing::TempDir(), absl::StrCat("cut", static_cast<int>(GetParam())));
  ASSERT_TRUE(RemoveTree(*cluster_.file_system, root).ok());
  const auto checkpoints =
      std::move(CheckpointDirectory::Open(*cluster_.file_system, root).value());
  const auto save_every_2 = [&](v1::LoadSlicesRequest* request) {
    request->mutable_run()->mutable_checkpoint()->set_save_every(2);
    request->mutable_run()->mutable_optimizer()->mutable_momentum()->set_momentum(0.5);
    request->set_checkpoint_root(root);
  };
  ASSERT_EQ(cluster_.Load(1, true, save_every_2), absl::OkStatus());
  Worker worker(&cluster_, 0);
  worker.store.SetView(cluster_.View(1));
  worker.SetGradients(0.25f);
  std::vector<std::vector<float>> at_2, at_3;
  const auto step = [&](uint64_t s, uint64_t lineage) {
    worker.ExchangeAll(Worker::Push(s, 0, lineage));
    worker.ExchangeAll(Worker::Push(s, 1, lineage));
    worker.ExchangeAll(Worker::Pull(s + 1, lineage));
    return worker.values;
  };
  step(0, 1);
  at_2 = step(1, 1);
  at_3 = step(2, 1);
  cluster_.chief.WaitUntil([&] { return cluster_.chief.shards.size() == kNumTestPs; });
  v1::Manifest manifest;
  manifest.set_run_id("0123456789abcdef0123456789abcdef");
  manifest.set_step(2);
  manifest.set_term(1);
  *manifest.mutable_variables() = PsLoadRequest(1, true).variables();
  *manifest.mutable_shard_map() = PsLoadRequest(1, true).shard_map();
  std::vector<v1::ReportShardRequest> shards = cluster_.chief.shards;
  std::sort(shards.begin(), shards.end(), [](const auto& a, const auto& b) {
    return a.identity().member().index() < b.identity().member().index();
  });
  for (const v1::ReportShardRequest& shard : shards) {
    EXPECT_EQ(shard.version(), 2u);
    EXPECT_EQ(shard.error(), "");
    EXPECT_EQ(shard.directory(), shards[0].directory());
    *manifest.add_shards() = shard.file();
  }
  CheckpointName name;
  ASSERT_TRUE(CheckpointName::Parse(shards[0].directory(), &name));
  ASSERT_TRUE(checkpoints->Publish(name, manifest).ok());

  ASSERT_TRUE(cluster_
                  .Load(2, true,
                        [&](v1::LoadSlicesRequest* request) {
                          save_every_2(request);
                          request->set_checkpoint(shards[0].directory());
                        })
                  .ok());
  worker.store.SetView(cluster_.View(2));
  worker.ExchangeAll(Worker::Pull(2, 2));
  EXPECT_EQ(worker.values, at_2);
  // The slots were restored as well: what follows is what followed before.
  EXPECT_EQ(step(2, 2), at_3);
}

TEST_P(ParameterServerTest, ACheckpointThatIsNotThereOrNotSharedIsRefused) {
  const std::string root =
      JoinPath(testing::TempDir(), absl::StrCat("root", static_cast<int>(GetParam())));
  ASSERT_TRUE(RemoveTree(*cluster_.file_system, root).ok());
  ASSERT_TRUE(cluster_.file_system->MakeDirectory(root).ok());
  const auto load = [&](const std::string& checkpoint, const std::string& token) {
    return cluster_.Load(1, true, [&](v1::LoadSlicesRequest* request) {
      request->set_checkpoint_root(root);
      request->set_checkpoint(checkpoint);
      request->set_token(token);
    });
  };
  EXPECT_FALSE(load("ckpt-9-9-0000000000000009", "").ok());
  EXPECT_EQ(load("../../etc", "").code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(load("", "token").code(), absl::StatusCode::kFailedPrecondition);
  ASSERT_TRUE(WriteAtomically(*cluster_.file_system, JoinPath(root, "TOKEN"), "token\n").ok());
  EXPECT_EQ(load("", "token"), absl::OkStatus());
}

TEST_P(ParameterServerTest, FinishEndsTheTask) {
  v1::FinishRequest finish;
  *finish.mutable_identity() = PsLoadRequest(1, true).identity();
  v1::FinishResponse response;
  ASSERT_TRUE(cluster_.servers[0]->parameter_service()->Finish(finish, &response).ok());
  EXPECT_TRUE(cluster_.servers[0]->Wait().ok());
  cluster_.servers[1]->End();
  EXPECT_TRUE(absl::IsCancelled(cluster_.servers[1]->Wait()));
}

TEST_P(ParameterServerTest, AReplacedTaskEnds) {
  cluster_.chief.SetFailure(absl::AbortedError("fenced incarnation"));
  EXPECT_TRUE(absl::IsAborted(cluster_.servers[0]->Wait()));
}

TEST(ListeningParameterServerTest, APortInUseIsRefusedAndTheFlagNamed) {
  PsTestCluster cluster(PsForm::kGrpc);
  ParameterServer::Options options;
  options.chief = cluster.chief.client();
  options.clock = &cluster.clock;
  options.file_system = cluster.file_system.get();
  options.listen_address = cluster.servers[0]->address();
  const absl::Status status = ParameterServer::Create(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(status.message()), testing::HasSubstr("--listen_address: cannot listen"));
}

class StagingTest : public testing::TestWithParam<PsForm> {};
INSTANTIATE_TEST_SUITE_P(Forms, StagingTest, AllPsForms(), PsFormName);

TEST_P(StagingTest, WithAStalledWorkerLessThanTwiceTheContributionsIsSent) {
  constexpr uint32_t kNumWorkers = 6;
  // Room for one contribution to the larger of the two ps.
  PsTestCluster cluster(GetParam(), [](auto* options) { options->staging_bytes = 512 + 512 + 64; });
  ASSERT_EQ(cluster.Load(1, true,
                         [](v1::LoadSlicesRequest* request) {
                           request->mutable_plan()->set_examples_per_epoch(2 * kNumWorkers);
                           request->mutable_plan()->set_replicas_to_aggregate(kNumWorkers);
                         }),
            absl::OkStatus());
  BulkFaults faults;
  std::vector<std::unique_ptr<Worker>> workers;
  for (uint32_t i = 0; i < kNumWorkers; ++i) {
    workers.push_back(std::make_unique<Worker>(&cluster, i, &faults));
    workers.back()->store.SetView(cluster.View(1));
    workers.back()->SetGradients(static_cast<float>(i));
  }
  const auto push = [&workers](uint32_t i) {
    ExpectAll(workers[i]->ExchangeAll(Worker::Push(0, i)), PushOutcome::kAccepted);
  };
  std::vector<std::thread> threads;
  for (uint32_t i = 1; i < kNumWorkers; ++i) threads.emplace_back(push, i);
  absl::SleepFor(absl::Milliseconds(500));  // Any time will do: the bound holds for all.
  push(0);
  for (std::thread& thread : threads) thread.join();
  workers[0]->ExchangeAll(Worker::Pull(1));
  EXPECT_TRUE(workers[0]->AllValuesAre(1.0f - 0.5f * 2.5f));
  EXPECT_LT(faults.sent_bytes, 2u * kNumWorkers * (56 * 8 + 8) * sizeof(float));
}

}  // namespace
}  // namespace shoal
