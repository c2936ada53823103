#include "worker/program/program_inputs.h"

#include <errno.h>
#include <sys/syscall.h>

#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/faulty_file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

absl::Status Ask(const std::string& file) {
  v1::RunConfig run;
  run.mutable_program()->set_file(file);
  return AskProgram(run, /*has_started_before=*/false).status();
}

TEST(ProgramInputsTest, AProgramThatCannotBeReadNowIsNotMissing) {
  for (const int error : {ESTALE, EIO, ENOMEM}) {
    RunWithFailingCall(SYS_access, error, [error] {
      EXPECT_THAT(Ask("train.py"), StatusIs(absl::StatusCode::kUnavailable,
                                            HasSubstr("program: cannot read train.py: ")))
          << error;
    });
  }
  RunWithFailingCall(SYS_access, EACCES, [] {
    EXPECT_THAT(Ask("train.py"), StatusIs(absl::StatusCode::kPermissionDenied,
                                          HasSubstr("; --program=FILE names the program")));
  });
  EXPECT_THAT(Ask("/nowhere/train.py"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("program: cannot read /nowhere/train.py: No such file or "
                                 "directory; --program=FILE names the program")));
}

TEST(ProgramInputsTest, AnInterpreterThatDoesNotStartIsNotTakenForTheProgram) {
  const std::string file = ::testing::TempDir() + "/train.py";
  std::ofstream(file) << "import shoal\n";
  for (const std::string python : {"/nowhere/python3", "/etc/passwd"}) {
    v1::RunConfig run;
    run.mutable_program()->set_file(file);
    run.mutable_program()->set_python(python);
    run.mutable_cluster()->set_wait_seconds(60);
    const absl::Status asked = AskProgram(run, /*has_started_before=*/false).status();
    EXPECT_THAT(asked.message(), HasSubstr("program: " + python + " cannot be started: "));
    EXPECT_THAT(asked.message(), HasSubstr("; install it on every host, or name another "
                                           "interpreter with --python=PROGRAM"));
  }
}

TEST(ProgramInputsTest, ARunThatCannotBeSeenNowMayHaveTrained) {
  FaultyFileSystem disk;
  ASSERT_OK(disk.MakeDirectory("run"));
  EXPECT_FALSE(HasTrained("run", &disk));
  disk.faults().FailReadAt(disk.faults().num_reads(), absl::UnavailableError("stale"));
  EXPECT_TRUE(HasTrained("run", &disk));
  EXPECT_FALSE(HasTrained("run", &disk));
  ASSERT_OK(WriteAtomically(disk, "run/metrics.jsonl", ""));
  EXPECT_TRUE(HasTrained("run", &disk));
}

}  // namespace
}  // namespace shoal
