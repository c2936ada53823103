#include "worker/evaluator/evaluator_task.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "base/file_system.h"
#include "runtime/observability/summary.h"

namespace shoal {
namespace {

Summary Finished(uint64_t steps, double epochs) {
  Summary summary;
  summary.status = "finished";
  summary.steps = steps;
  summary.epochs = epochs;
  return summary;
}

TEST(IsRunFinishedTest, ARunThatHasMadeAllItsStepsIsFinished) {
  v1::RunConfig run;
  run.set_num_epochs(5);
  EXPECT_TRUE(IsRunFinished(Finished(100, 5), run));
  EXPECT_FALSE(IsRunFinished(Finished(60, 3), run)) << "an earlier end, before it was resumed";
  run.set_max_steps(60);
  EXPECT_TRUE(IsRunFinished(Finished(60, 3), run));
}

TEST(IsRunFinishedTest, NotOneThatStoppedOrFailed) {
  v1::RunConfig run;
  run.set_num_epochs(5);
  Summary summary = Finished(100, 5);
  for (const char* status : {"stopped", "failed"}) {
    summary.status = status;
    EXPECT_FALSE(IsRunFinished(summary, run));
  }
}

TEST(EndBeforeThisTest, NotWhileALaterStartIsUnderWay) {
  const std::string directory = ::testing::TempDir() + "/resumed";
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_TRUE(RemoveTree(*files, directory).ok());
  ASSERT_TRUE(files->MakeDirectory(directory).ok());
  ASSERT_TRUE(WriteSummary(files.get(), directory, Finished(200, 1)).ok());
  v1::RunConfig run;
  run.set_out(directory);
  run.set_max_steps(6000);
  run.set_num_epochs(100);
  ASSERT_TRUE(EndBeforeThis(run).has_value());
  EXPECT_EQ(EndBeforeThis(run)->steps, 200);
  ASSERT_TRUE(WriteAtomically(*files, directory + "/cluster.textproto", "").ok());
  const timespec past[2] = {{1000, 0}, {1000, 0}};
  ASSERT_EQ(utimensat(AT_FDCWD, (directory + "/summary.json").c_str(), past, 0), 0);
  EXPECT_FALSE(EndBeforeThis(run).has_value()) << "it was resumed";
}

}  // namespace
}  // namespace shoal
