#include "ps/parameter_service_impl.h"

#include <functional>
#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "base/fake_clock.h"
#include "base/faulty_file_system.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/ps_test_cluster.h"
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
    service_ = std::make_unique<ParameterServiceImpl>(options);
    request_.set_checkpoint_root(kRoot);
    request_.set_token("token");
    files_.MakeDirectory(kRoot).IgnoreError();
  }

  absl::Status Load() {
    v1::LoadSlicesResponse response;
    return service_->LoadSlices(request_, &response);
  }

  void WriteToken() { ASSERT_EQ(WriteAtomically(files_, kToken, "token"), absl::OkStatus()); }

  FakeClock clock_;
  SlowFiles files_{&clock_};
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

TEST_F(ParameterServiceImplTest, AFailureThatCameLateIsKeptForTheNextAsk) {
  files_.open_takes = kLoadTimeout;
  const absl::Status failed = Load();
  EXPECT_TRUE(absl::IsFailedPrecondition(failed)) << failed;
  EXPECT_EQ(files_.num_reads, 1);
  EXPECT_EQ(Load(), failed);
  EXPECT_EQ(files_.num_reads, 1) << "the ask was answered with what is known";
  WriteToken();
  EXPECT_EQ(Load(), absl::OkStatus()) << "the failure is given once, then the ps tries again";
}

TEST_F(ParameterServiceImplTest, AFailureThatCameInTimeOrOfAnotherLoadIsNotKept) {
  EXPECT_TRUE(absl::IsFailedPrecondition(Load()));
  files_.open_takes = kLoadTimeout;
  EXPECT_TRUE(absl::IsFailedPrecondition(Load()));
  EXPECT_EQ(files_.num_reads, 2);
  WriteToken();
  request_.mutable_identity()->set_lineage(2);
  EXPECT_EQ(Load(), absl::OkStatus());
}

}  // namespace
}  // namespace shoal
