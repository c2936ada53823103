#include "deploy/control_command.h"

#include <errno.h>
#include <sys/syscall.h>

#include <memory>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "runtime/observability/summary.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(ControlCommandTest, ADirectoryThatCannotBeSeenNowIsNotMissing) {
  const std::string directory = JoinPath(::testing::TempDir(), "seen");
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_OK(files->MakeDirectory(directory));
  ASSERT_OK(WriteAtomically(*files, JoinPath(directory, "cluster.textproto"),
                            "job { name: 'chief' tasks { address: '127.0.0.1:2222' } }"));
  EXPECT_THAT(FindChief(directory), IsOkAndHolds("127.0.0.1:2222"));
  RunWithFailingCall(SYS_newfstatat, ESTALE, [&directory] {
    EXPECT_THAT(FindChief(directory), StatusIs(absl::StatusCode::kUnavailable));
  });
  EXPECT_THAT(FindChief(JoinPath(directory, "none")), StatusIs(absl::StatusCode::kNotFound));
}

TEST(ControlCommandTest, StatusOfARunThatDivergedNamesTheCommandWithALowerRate) {
  const std::string directory = JoinPath(::testing::TempDir(), "diverged");
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_OK(files->MakeDirectory(directory));
  ASSERT_OK(WriteAtomically(*files, JoinPath(directory, "run.textproto"),
                            "optimizer { learning_rate: 2.5 }"));
  Summary summary;
  summary.status = "failed";
  summary.exit_reason =
      "variable b is not finite after the update of step 3: training diverges; lower "
      "--learning_rate (2.5 there) or clip gradients. There is no checkpoint yet";
  ASSERT_OK(WriteSummary(files.get(), directory, summary));
  ControlLinks links;
  links.program = "shoal";
  const auto status_of = [&](const std::vector<std::string>& args) {
    ::testing::internal::CaptureStdout();
    EXPECT_EQ(StatusMain(links, args), 0);
    return ::testing::internal::GetCapturedStdout();
  };
  const std::string text = status_of({directory});
  const std::string anew = "shoal train --run=" + directory + "/run.textproto --out=" + directory;
  EXPECT_THAT(text, HasSubstr("; it would diverge again: lower the rate (--learning_rate)"));
  EXPECT_THAT(text, HasSubstr(anew));
  EXPECT_THAT(text, HasSubstr("--learning_rate=0.25"));
  EXPECT_THAT(text, Not(HasSubstr("start it again")));
  const std::string json = status_of({directory, "--json"});
  EXPECT_THAT(json, HasSubstr("it would diverge again"));
  EXPECT_THAT(json, Not(HasSubstr(anew)));
}

}  // namespace
}  // namespace shoal
