#include "deploy/launch/output_tail.h"

#include <fstream>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/clock.h"
#include "base/file_system.h"
#include "runtime/observability/progress.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class OutputTailTest : public ::testing::Test {
 protected:
  OutputTailTest() {
    const auto* test = ::testing::UnitTest::GetInstance()->current_test_info();
    path_ = ::testing::TempDir() + "/" + test->name();
  }
  void Append(const std::string& text) const {
    std::ofstream(path_, std::ios::app | std::ios::binary) << text;
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  std::string path_;
};

TEST_F(OutputTailTest, ReturnsNewLinesOnly) {
  Append("of an earlier start\n");
  OutputTail tail(files_.get(), path_);
  EXPECT_THAT(tail.Read(false), IsEmpty());
  Append("one\ntwo\nthr");
  EXPECT_THAT(tail.Read(false), ElementsAre("one", "two"));
  EXPECT_THAT(tail.Read(false), IsEmpty());
  Append("ee\n\nlast");
  EXPECT_THAT(tail.Read(false), ElementsAre("three", ""));
  EXPECT_THAT(tail.Read(true), ElementsAre("last"));
  EXPECT_THAT(tail.Read(true), IsEmpty());
}

TEST_F(OutputTailTest, ShowsTheEndOfALineThatWasBegunAgain) {
  OutputTail tail(files_.get(), path_);  // There is no file yet.
  EXPECT_THAT(tail.Read(true), IsEmpty());
  Append("10%\r50%\r100%\nwindows\r\n");
  EXPECT_THAT(tail.Read(false), ElementsAre("100%", "windows"));
}

TEST_F(OutputTailTest, LeavesOutTheBeginningOfMuchText) {
  OutputTail tail(files_.get(), path_);
  Append(std::string(20000, 'x') + "\nthe end\n");
  const std::vector<std::string> lines = tail.Read(false);
  ASSERT_EQ(lines.size(), 3u);
  EXPECT_EQ(lines[0], "... 3625 bytes more in " + path_);
  EXPECT_EQ(lines[2], "the end");
}

TEST_F(OutputTailTest, AllLinesArePrinted) {
  const RealClock clock;
  std::string printed;
  ProgressOptions bar;
  bar.write = [&printed](absl::string_view text) { printed.append(text.data(), text.size()); };
  ProgressReporter progress(bar, &clock);
  {
    OutputPrinter printer(files_.get(), path_, &progress);
    Append("one\ntwo");
  }
  EXPECT_EQ(printed, "one\ntwo\n");
}

}  // namespace
}  // namespace shoal
