#include "worker/prediction/class_names.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

TEST(ClassNamesTest, AnyNamesAreReadAsTheyWereWritten) {
  FaultyFileSystem disk;
  ASSERT_OK(disk.MakeDirectory("run"));
  const std::vector<std::string> names = {"cat", "Hündin", "a b", "two\nlines", "back\\slash", ""};
  ASSERT_OK(WriteClassNames(&disk, "run", names));
  EXPECT_EQ(ReadClassNames(&disk, "run"), names);
  EXPECT_THAT(ReadFile(disk, "run/classes.txt").value(),
              ::testing::StartsWith("cat\nHündin\na b\n"));
}

TEST(ClassNamesTest, WithoutNamesThereIsNoFile) {
  FaultyFileSystem disk;
  ASSERT_OK(disk.MakeDirectory("run"));
  ASSERT_OK(WriteClassNames(&disk, "run", {}));
  EXPECT_FALSE(disk.GetInfo("run/classes.txt").ok());
  EXPECT_TRUE(ReadClassNames(&disk, "run").empty());
}

}  // namespace
}  // namespace shoal
