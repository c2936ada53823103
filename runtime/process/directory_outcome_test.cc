#include "runtime/process/directory_outcome.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <memory>

#include "gtest/gtest.h"

#include "base/file_system.h"
#include "runtime/process/run_lock.h"

namespace shoal {
namespace {

TEST(DirectoryOutcomeTest, TheSummaryOfAnEarlierStartIsNotThatOfTheRun) {
  const std::string directory = ::testing::TempDir() + "/over";
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_TRUE(RemoveTree(*files, directory).ok());
  EXPECT_FALSE(SummaryIfOver(directory).has_value());
  ASSERT_TRUE(files->MakeDirectory(directory).ok());
  Summary summary;
  summary.status = "finished";
  ASSERT_TRUE(WriteSummary(files.get(), directory, summary).ok());
  ASSERT_TRUE(WriteAtomically(*files, directory + "/cluster.textproto", "").ok());
  const auto write_at = [&directory](const char* name, time_t seconds) {
    const timespec times[2] = {{seconds, 0}, {seconds, 0}};
    ASSERT_EQ(utimensat(AT_FDCWD, (directory + name).c_str(), times, 0), 0);
  };
  write_at("/summary.json", 1000);
  write_at("/cluster.textproto", 2000);
  EXPECT_FALSE(SummaryIfOver(directory).has_value());
  write_at("/summary.json", 3000);
  ASSERT_TRUE(SummaryIfOver(directory).has_value());
  EXPECT_EQ(SummaryIfOver(directory)->status, "finished");
  for (const RunLock::Holder holder : {RunLock::Holder::kLauncher, RunLock::Holder::kChief}) {
    {
      const absl::StatusOr<RunLock> held = RunLock::Acquire(directory, holder);
      ASSERT_TRUE(held.ok()) << held.status();
      EXPECT_FALSE(SummaryIfOver(directory).has_value()) << "a start that resumes from there";
      EXPECT_TRUE(IsStarting(directory));
    }
    EXPECT_TRUE(SummaryIfOver(directory).has_value()) << "which came to nothing";
    EXPECT_FALSE(IsStarting(directory));
  }
  const absl::StatusOr<RunLock> held = RunLock::Acquire(directory, RunLock::Holder::kLauncher);
  write_at("/cluster.textproto", 4e9);
  EXPECT_FALSE(IsStarting(directory)) << "it serves";
  write_at("/LOCK", 4e9 - 1);
  write_at("/summary.json", 4e9 - 2);
  EXPECT_FALSE(SummaryIfOver(directory).has_value());
  write_at("/summary.json", 4e9);
  EXPECT_TRUE(SummaryIfOver(directory).has_value()) << "it has ended, but not its launcher";
}

TEST(DirectoryOutcomeTest, ARunIsNotOverWhileAFileOfItsStartCannotBeSeen) {
  const std::string directory = ::testing::TempDir() + "/unseen";
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_TRUE(RemoveTree(*files, directory).ok());
  ASSERT_TRUE(files->MakeDirectory(directory).ok());
  Summary summary;
  summary.status = "finished";
  ASSERT_TRUE(WriteSummary(files.get(), directory, summary).ok());
  ASSERT_TRUE(SummaryIfOver(directory).has_value());
  for (const char* name : {"/LOCK", "/CHIEF_LOCK", "/cluster.textproto"}) {
    // Looking at a link to itself is an error, but not that of a file that does not exist.
    ASSERT_EQ(symlink((directory + name).c_str(), (directory + name).c_str()), 0) << name;
    EXPECT_FALSE(SummaryIfOver(directory).has_value()) << name;
    EXPECT_FALSE(IsStarting(directory)) << name;
    ASSERT_EQ(unlink((directory + name).c_str()), 0) << name;
  }
}

}  // namespace
}  // namespace shoal
