#include "ps/parameter_service_impl.h"

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/faulty_file_system.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/memory_check.h"
#include "ps/ps_cluster_testing.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/checkpoint/shard_writer.h"
#include "runtime/plan/slice_table.h"
#include "runtime/rpc/control_timeout.h"
#include "runtime/rpc/receiver_rules.h"

namespace shoal {
namespace {

constexpr char kRoot[] = "checkpoints";
constexpr char kToken[] = "checkpoints/TOKEN";

class NoObserver : public ShardObserver {
 public:
  void OnLineage(uint64_t) override {}
  void OnEvents(SliceStoreEvents*) override {}
};

// Opening a file takes a while.
class SlowFiles : public FaultyFileSystem {
 public:
  explicit SlowFiles(FakeClock* clock) : clock_(clock) {}

  absl::StatusOr<std::unique_ptr<ReadableFile>> OpenForRead(const std::string& path) override {
    ++num_reads;
    clock_->Advance(open_takes);
    if (during_open != nullptr) during_open();
    return FaultyFileSystem::OpenForRead(path);
  }

  absl::Duration open_takes;
  std::function<void()> during_open;
  int num_reads = 0;

 private:
  FakeClock* const clock_;
};

// One ps that loads initial values, after it has compared the token of the directory.
class ParameterServiceImplTest : public testing::Test {
 protected:
  ParameterServiceImplTest() {
    shard_.SetRules(ReceiverRules(request_.identity().run_id(), /*term=*/1, /*incarnation=*/1),
                    [] { return true; });
    ParameterServiceImpl::Options options;
    options.shard = &shard_;
    options.file_system = &files_;
    options.on_load = [](const v1::LoadSlicesRequest&, const PartitionedStore&) {};
    options.on_memory = [this](const v1::LoadSlicesRequest&, const MemoryNeed&,
                               const MemoryBounds&) { return memory_; };
    service_ = std::make_unique<ParameterServiceImpl>(options);
    request_.set_checkpoint_root(kRoot);
    request_.set_token("token");
    files_.MakeDirectory(kRoot).IgnoreError();
  }

  absl::Status Load() {
    v1::LoadSlicesResponse response;
    return service_->LoadSlices(request_, &response);
  }

  // Writes a checkpoint of the request's variables, and asks for it.
  void RequestCheckpoint() {
    const CheckpointName name{/*step=*/7, /*term=*/1, /*lineage=*/1};
    const std::string directory = JoinPath(kRoot, name.ToString());
    files_.MakeDirectory(directory).IgnoreError();
    v1::Manifest manifest;
    manifest.set_step(name.step);
    *manifest.mutable_variables() = request_.variables();
    *manifest.mutable_shard_map() = request_.shard_map();
    const std::vector<v1::VariableSpec> variables(request_.variables().begin(),
                                                  request_.variables().end());
    const SliceTable table =
        SliceTable::Create(variables, request_.shard_map().slice_bytes()).value();
    ShardWriter writer(files_, {directory, 0, 1});
    const std::vector<float> ones(request_.shard_map().slice_bytes() / sizeof(float), 1);
    for (uint32_t slice = 0; slice < table.size(); ++slice) {
      const uint32_t variable = table[slice].variable;
      writer.Add(variables[variable].name(), slice - table.first_slice_of(variable),
                 {ones.data(), table[slice].num_elements}, {}, {name.step, name.step, {}});
    }
    *manifest.add_shards() = writer.Finish().value();
    ASSERT_EQ(WriteManifest(files_, directory, manifest), absl::OkStatus());
    request_.set_checkpoint(name.ToString());
  }

  void WriteToken() { ASSERT_EQ(WriteAtomically(files_, kToken, "token"), absl::OkStatus()); }

  FakeClock clock_;
  SlowFiles files_{&clock_};
  absl::Status memory_;  // Not OK: the memory of an older lineage is not free yet.
  NoObserver observer_;
  ParameterShard shard_{&clock_, &observer_};
  v1::LoadSlicesRequest request_ = PsLoadRequest(1, true);
  std::unique_ptr<ParameterServiceImpl> service_;
};

TEST_F(ParameterServiceImplTest, AnAskWhileThePsLoadsIsAnsweredAtOnceAndALaterOneWithTheResult) {
  WriteToken();
  absl::Status meanwhile;
  files_.during_open = [&] {
    files_.during_open = nullptr;
    meanwhile = Load();
  };
  EXPECT_EQ(Load(), absl::OkStatus());  // The answer does not reach the chief.
  EXPECT_EQ(meanwhile, absl::UnavailableError("this ps is still loading; ask again"));
  EXPECT_EQ(Load(), absl::OkStatus());
  EXPECT_EQ(files_.num_reads, 1);
}

TEST_F(ParameterServiceImplTest, ALoadThatFindsOlderRowsInMemoryIsAskedForAgain) {
  WriteToken();
  memory_ = absl::UnknownError("this ps is still writing rows");
  EXPECT_EQ(Load(), memory_);
  memory_ = absl::OkStatus();
  EXPECT_EQ(Load(), absl::OkStatus());
}

TEST_F(ParameterServiceImplTest, AFailureThatCameLateIsKeptForTheNextAsk) {
  files_.open_takes = kLoadTimeout;
  const absl::Status failed = Load();
  EXPECT_TRUE(absl::IsFailedPrecondition(failed)) << failed;
  // A token that is missing is looked for a second time.
  EXPECT_EQ(files_.num_reads, 2);
  EXPECT_EQ(Load(), failed);
  EXPECT_EQ(files_.num_reads, 2) << "the ask was answered with what is known";
  WriteToken();
  EXPECT_EQ(Load(), absl::OkStatus()) << "the failure is given once, then the ps tries again";
}

// The estimate is for the worst case, which an existing run may never reach.
TEST_F(ParameterServiceImplTest, AHeaderThatMayBecomeTooLargeIsRefusedAtAStartOnly) {
  WriteToken();
  request_.mutable_run()->mutable_sync()->set_sync_replicas(false);
  request_.mutable_plan()->set_replicas_to_aggregate(1);
  // Each slice lists the batches of so many workers.
  request_.mutable_run()->mutable_deployment()->set_num_replicas(10000000);
  const absl::Status refused = Load();
  EXPECT_TRUE(absl::IsFailedPrecondition(refused)) << refused;
  EXPECT_TRUE(absl::StrContains(refused.message(), "this ps has 3 slices")) << refused;
  RequestCheckpoint();
  EXPECT_EQ(Load(), absl::OkStatus());
}

TEST_F(ParameterServiceImplTest, AFailureThatCameInTimeOrOfAnotherLoadIsNotKept) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Load()));
  files_.open_takes = kLoadTimeout;
  EXPECT_TRUE(absl::IsFailedPrecondition(Load()));
  EXPECT_EQ(files_.num_reads, 4) << "both loads read, each of them twice";
  WriteToken();
  request_.mutable_identity()->set_lineage(2);
  EXPECT_EQ(Load(), absl::OkStatus());
}

}  // namespace
}  // namespace shoal
