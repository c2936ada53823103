// Tests how the launcher ends a run that trains, and which restarts of a worker do not count.
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/mutex.h"
#include "deploy/launch/launcher_testing.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Trains from its first answer on, and has made `step` steps.
class TrainingChief : public TestChief {
 public:
  TrainingChief(std::string directory, uint64_t step)
      : TestChief(std::move(directory)), step_(step) {}
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    response->mutable_state()->set_phase(v1::RunState::PHASE_TRAINING);
    response->set_step(step_);
    if (++answers_ == 2) std::ofstream(directory() + "/trains") << "x";  // The first was received.
    return absl::OkStatus();
  }

 private:
  const uint64_t step_;
  int answers_ = 0;
};

TEST_F(LauncherTest, APermanentErrorOfAWorkerThatTrainedEndsTheRunAfterACheckpoint) {
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<TrainingChief>(directory_, /*step=*/1));
  };
  const absl::Status status = Launch(
      "case $task in"
      " worker-1) await trains; echo 'shoal worker: data.directory: truncated' >&2; exit 65;;"
      " chief-0) await stop; touch $dir/over; exit 143;; *) await over; exit 143;; esac");
  EXPECT_EQ(status, absl::DataLossError("worker/1: data.directory: truncated; there is no "
                                        "checkpoint to resume from"));
  EXPECT_EQ(Starts("worker-1"), 1);
  EXPECT_EQ(Content("stop"), "worker/1 failed");
  EXPECT_THAT(printed_, HasSubstr("worker/1 failed (exit code 65 (damaged data)), "
                                  "and a restart would not help; the run makes a checkpoint and "
                                  "ends; log: "));
}

TEST_F(LauncherTest, ARunWithoutStepsAnnouncesNoCheckpoint) {
  options_.run.mutable_deployment()->set_num_replicas(1);
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<TrainingChief>(directory_, /*step=*/0));
  };
  const absl::Status status = Launch(
      "case $task in worker-0) await trains; echo 'shoal worker: no' >&2; exit 78;;"
      " chief-0) await stop; touch $dir/over; exit 143;; *) await over; exit 143;; esac");
  EXPECT_EQ(status.message(), "worker/0: no; there is no checkpoint to resume from");
  EXPECT_THAT(printed_, HasSubstr("and a restart would not help; the run ends; log: "));
}

// Skips a batch when two processes have crashed on it.
class SkippingChief : public TestChief {
 public:
  using TestChief::TestChief;
  absl::Status ReportBadBatch(const v1::ReportBadBatchRequest& request,
                              v1::ReportBadBatchResponse*) override {
    MutexLock lock(&mutex_);
    if (++crashes_ == 2) *status_.mutable_state()->add_skipped() = request.batch();
    if (crashes_ == 2) status_.set_last_skipped("batch 3 of epoch 1 is skipped: a crash");
    if (crashes_ == 2) status_.set_memory_warning("ps/0 uses 93 MiB of 100");
    return absl::OkStatus();
  }
  absl::Status GetRunStatus(const v1::GetRunStatusRequest&,
                            v1::GetRunStatusResponse* response) override {
    MutexLock lock(&mutex_);
    *response = status_;
    return absl::OkStatus();
  }

 private:
  Mutex mutex_;
  int crashes_ ABSL_GUARDED_BY(mutex_) = 0;
  v1::GetRunStatusResponse status_ ABSL_GUARDED_BY(mutex_);
};

TEST_F(LauncherTest, RestartsAfterCrashesOnABatchThatIsSkippedDoNotCount) {
  options_.run.mutable_deployment()->set_num_replicas(1);
  options_.run.mutable_cluster()->set_max_worker_restarts(1);
  options_.connect = [this](const std::string&) {
    return NewClient(std::make_unique<SkippingChief>(directory_));
  };
  MarkBatch({{0, 3}, 7});
  EXPECT_EQ(Launch("ulimit -c 0; case $task-$starts in worker-0-1|worker-0-2) mark; kill -SEGV $$;;"
                   " worker-0-3) await skipped; kill -KILL $$;; worker-0-4) touch $dir/over;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("worker-0"), 4);
  EXPECT_THAT(printed_, HasSubstr("worker/0 died (killed by SIGSEGV); restarting it, 1 of 1"));
  EXPECT_THAT(
      printed_,
      HasSubstr(
          "worker/0 died (killed by SIGSEGV) on the same batch as a "
          "process before it; restarting it, which does not count toward its limit of restarts"));
  EXPECT_THAT(printed_, HasSubstr("warning: batch 3 of epoch 1 is skipped: a crash"));
  EXPECT_THAT(printed_, HasSubstr("warning: ps/0 uses 93 MiB of 100"));
  EXPECT_THAT(printed_, HasSubstr("worker/0 died (killed by SIGKILL); restarting it, 1 of 1"));
}

TEST_F(LauncherTest, ACrashBeforeAnyBatchDoesNotBlameTheBatchOfTheProcessBefore) {
  MarkBatch({{0, 3}, 7});
  EXPECT_EQ(Launch("ulimit -c 0; case $task-$starts in worker-0-1) mark; kill -KILL $$;;"
                   " worker-0-2|worker-0-3) kill -SEGV $$;; worker-0-4) touch $dir/over;;"
                   " *) await over;; esac"),
            absl::OkStatus());
  EXPECT_EQ(Starts("worker-0"), 4);
  EXPECT_EQ(Content("crash"), "");
  EXPECT_THAT(printed_, HasSubstr("worker/0 died (killed by SIGSEGV); restarting it, 3 of 3"));
  EXPECT_THAT(printed_, Not(HasSubstr("on the same batch")));
}

}  // namespace
}  // namespace shoal
