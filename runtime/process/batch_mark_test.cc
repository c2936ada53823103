#include "runtime/process/batch_mark.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace shoal {
namespace {

std::string Path() { return ::testing::TempDir() + "/worker-0.batch"; }

TEST(BatchMarkTest, ReturnsTheBatchThatADeadProcessWasComputing) {
  const pid_t child = fork();
  if (child == 0) {
    auto mark = BatchMark::Create(Path());
    if (!mark.ok()) _exit(1);
    (*mark)->Set({BatchKey{2, 17}, 5});
    raise(SIGKILL);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFSIGNALED(status));
  const std::optional<MarkedBatch> marked = ReadBatchMark(Path());
  ASSERT_TRUE(marked.has_value());
  EXPECT_EQ(marked->batch, (BatchKey{2, 17}));
  EXPECT_EQ(marked->incarnation, 5u);
}

TEST(BatchMarkTest, WithoutABatchThereIsNoMark) {
  auto mark = BatchMark::Create(Path());
  ASSERT_TRUE(mark.ok()) << mark.status();
  EXPECT_FALSE(ReadBatchMark(Path()).has_value());
  (*mark)->Set({BatchKey{0, 1}, 1});
  EXPECT_TRUE(ReadBatchMark(Path()).has_value());
  (*mark)->Clear();
  EXPECT_FALSE(ReadBatchMark(Path()).has_value());
  EXPECT_FALSE(ReadBatchMark(Path() + ".absent").has_value());
}

// Otherwise the first store on a full disk ends the worker with SIGBUS.
TEST(BatchMarkTest, TheFilesBlocksAreThereBeforeTheFirstStore) {
  auto mark = BatchMark::Create(Path());
  ASSERT_TRUE(mark.ok()) << mark.status();
  struct stat file = {};
  ASSERT_EQ(stat(Path().c_str(), &file), 0);
  EXPECT_EQ(file.st_size, 32);
  EXPECT_GT(file.st_blocks, 0);
}

TEST(BatchMarkTest, ADirectoryThatIsNotThereIsNamed) {
  EXPECT_NE(BatchMark::Create("/nowhere/x").status().message().find("/nowhere/x"),
            std::string::npos);
}

}  // namespace
}  // namespace shoal
