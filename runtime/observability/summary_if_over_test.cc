#include "runtime/observability/summary_if_over.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <memory>

#include "gtest/gtest.h"

#include "base/file_system.h"

namespace shoal {
namespace {

TEST(SummaryIfOverTest, TheSummaryOfAnEarlierStartIsNotThatOfTheRun) {
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
}

}  // namespace
}  // namespace shoal
