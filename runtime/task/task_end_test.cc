#include "runtime/task/task_end.h"

#include <signal.h>

#include "absl/status/status.h"
#include "gtest/gtest.h"

#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

TEST(TaskEndTest, WithoutASignalTheResultIsThatOfTheRun) {
  ShutdownNotification shutdown;
  // The end of a parent or of a run is a request without a signal.
  shutdown.Request();
  for (const absl::Status& status : {absl::OkStatus(), absl::CancelledError("stopped")}) {
    const TaskEnd end(status, shutdown);
    EXPECT_FALSE(end.was_asked());
    EXPECT_TRUE(end.is_run_over());
    EXPECT_EQ(end.result(), status);
  }
  const TaskEnd failed(absl::UnavailableError("a peer was lost"), shutdown);
  EXPECT_FALSE(failed.is_run_over());
  EXPECT_EQ(failed.result(), failed.status());
}

TEST(TaskEndTest, ATaskThatWasAskedToEndIsCancelledAlsoIfTheRunEndsMeanwhile) {
  ShutdownNotification shutdown;
  shutdown.Request(SIGTERM);
  const TaskEnd with_run(absl::OkStatus(), shutdown);
  EXPECT_TRUE(with_run.was_asked());
  EXPECT_TRUE(with_run.is_run_over());
  EXPECT_TRUE(absl::IsCancelled(with_run.result()));
  const TaskEnd before_run(absl::CancelledError("drained"), shutdown);
  EXPECT_FALSE(before_run.is_run_over());
  EXPECT_EQ(before_run.result(), before_run.status());
}

TEST(TaskEndTest, ARequestAfterTheEndIsNotItsReason) {
  ShutdownNotification shutdown;
  const TaskEnd end(absl::OkStatus(), shutdown);
  shutdown.Request(SIGTERM);
  EXPECT_EQ(end.result(), absl::OkStatus());
}

}  // namespace
}  // namespace shoal
