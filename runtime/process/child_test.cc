#include "runtime/process/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/unique_fd.h"
#include "runtime/process/report_address.h"
#include "runtime/process/withheld_end.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// A child that runs shell commands; what Child adds to its arguments becomes $0 and $1.
ChildOptions Shell(const std::string& script) {
  ChildOptions options;
  options.name = "ps/0";
  options.args = {"/bin/sh", "-c", script};
  options.log_file = ::testing::TempDir() + "/child_test.log";
  std::ofstream(options.log_file, std::ios::trunc).close();
  return options;
}

std::unique_ptr<Child> Started(const ChildOptions& options) {
  absl::StatusOr<std::unique_ptr<Child>> child = Child::Start(options);
  EXPECT_TRUE(child.ok()) << child.status();
  return *std::move(child);
}

ChildExit ExitOf(const std::string& script) {
  return *Started(Shell(script))->WaitFor(absl::InfiniteDuration());
}

std::string Content(const std::string& path) {
  std::ostringstream text;
  text << std::ifstream(path).rdbuf();
  return text.str();
}

TEST(ChildTest, ReportsHowItEnded) {
  EXPECT_TRUE(ExitOf("exit 0").ok());
  EXPECT_EQ(ExitOf("exit 64").Describe(), "exit code 64 (bad flags)");
  EXPECT_EQ(ExitOf("kill -KILL $$").Describe(), "killed by SIGKILL");
  EXPECT_FALSE(ExitOf("kill -KILL $$").crashed());
  EXPECT_TRUE(ExitOf("kill -SEGV $$").crashed());
  EXPECT_TRUE(ExitOf("kill -ABRT $$").crashed());
  EXPECT_FALSE(ExitOf("exit 1").crashed());
  EXPECT_FALSE(ExitOf("exit 1").is_permanent());
  EXPECT_TRUE(ExitOf("exit 64").is_permanent());
  EXPECT_FALSE((ChildExit{/*by_signal=*/true, /*number=*/2}).is_permanent());
  EXPECT_EQ(ExitOf("kill -KILL $$").status_code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(ExitOf("kill -SEGV $$").status_code(), absl::StatusCode::kInternal);
}

TEST(ChildTest, OutputGoesToTheLog) {
  const ChildOptions options = Shell("echo to-out; echo to-err >&2; echo $0");
  Started(options)->WaitFor(absl::InfiniteDuration());
  EXPECT_THAT(Content(options.log_file), HasSubstr("to-out\nto-err\n--parent_pid="));
}

TEST(ChildTest, ReportsItsAddress) {
  ChildOptions options = Shell("echo 127.0.0.1:4711 >&3; exec 3>&-; sleep 60");
  options.reports_address = true;
  const std::unique_ptr<Child> child = Started(options);
  EXPECT_EQ(*child->WaitForAddress(absl::Seconds(10)), "127.0.0.1:4711");
  EXPECT_FALSE(child->Poll().has_value());
}

TEST(ChildTest, ADeathBeforeTheReportIsNamed) {
  ChildOptions options = Shell("exit 78");
  options.reports_address = true;
  const absl::Status status = Started(options)->WaitForAddress(absl::Seconds(10)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(status.message(),
            "ps/0 ended before it reported its address: exit code 78 (bad configuration)");
}

TEST(ChildTest, AMissingProgramIsAnError) {
  ChildOptions options = Shell("");
  options.args = {"/nowhere/shoal"};
  const absl::Status status = Child::Start(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(status.message(), HasSubstr("ps/0: cannot start /nowhere/shoal"));
}

TEST(ChildTest, AStartThatTheSystemCannotDoNowMaySucceedLater) {
  RunWithFailingCall(SYS_clone3, EAGAIN, [] {
    const absl::Status status = Child::Start(Shell("")).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kUnavailable) << status;
  });
}

TEST(ChildTest, DestructionKillsTheWholeGroup) {
  ChildOptions options = Shell("sleep 60 & echo $! >&3; exec 3>&-; wait");
  options.reports_address = true;
  pid_t grandchild = 0;
  {
    const std::unique_ptr<Child> child = Started(options);
    grandchild = std::stoi(*child->WaitForAddress(absl::Seconds(10)));
    EXPECT_EQ(getpgid(grandchild), child->pid());
  }
  // Killed; until init has reaped it, it is a zombie without a group to signal but still there.
  std::string state;
  do {
    std::ifstream stat("/proc/" + std::to_string(grandchild) + "/stat");
    std::string pid, name;
    state.clear();
    stat >> pid >> name >> state;
  } while (!state.empty() && state != "Z" && state != "X");
}

TEST(ChildTest, AChildThatDoesNotEndWhenItIsKilledIsNotWaitedForForEver) {
  std::unique_ptr<Child> child = Started(Shell("sleep 60"));
  WithholdEndOf(child->pid());
  EXPECT_EQ(child->PatienceAfterKill(), absl::InfiniteDuration());
  child->Kill();
  EXPECT_LE(child->PatienceAfterKill(), absl::Seconds(10));
  EXPECT_FALSE(child->WaitFor(child->PatienceAfterKill()).has_value());
  EXPECT_EQ(child->PatienceAfterKill(), absl::ZeroDuration());
  child->Kill();
  EXPECT_EQ(child->PatienceAfterKill(), absl::ZeroDuration());
  child.reset();
}

TEST(ChildTest, BlockedSignalsAreNotInherited) {
  sigset_t set, old;
  sigemptyset(&set);
  sigaddset(&set, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &set, &old);
  const std::unique_ptr<Child> child = Started(Shell("sleep 60"));
  pthread_sigmask(SIG_SETMASK, &old, nullptr);
  child->Signal(SIGTERM);
  EXPECT_EQ(child->WaitFor(absl::Seconds(10))->Describe(), "killed by SIGTERM");
}

TEST(ChildTest, AnEndThatTheSystemDoesNotKeepIsAnError) {
  signal(SIGCHLD, SIG_IGN);
  const ChildExit exit = ExitOf("exit 0");
  signal(SIGCHLD, SIG_DFL);
  EXPECT_FALSE(exit.ok());
  EXPECT_FALSE(exit.is_known);
  EXPECT_EQ(exit.status_code(), absl::StatusCode::kInternal);
  EXPECT_EQ(exit.Describe(), "it is not known how it ended, because SIGCHLD was ignored");
}

TEST(ChildTest, AProcessThatInheritedAnIgnoredSigchldLearnsHowItsChildrenEnd) {
  signal(SIGCHLD, SIG_IGN);
  KeepEndsOfChildren();
  EXPECT_EQ(ExitOf("exit 64").Describe(), "exit code 64 (bad flags)");
}

TEST(DieWithParentTest, TheKernelKillsTheChildWhenTheParentIsKilled) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    const pid_t self = getpid();
    if (fork() == 0) {
      DieWithParent(self);
      const char ready = 'r';
      if (write(ends[1], &ready, 1) != 1) _exit(1);
      while (true) pause();
    }
    while (true) pause();
  }
  close(ends[1]);
  char byte = 0;
  ASSERT_EQ(read(ends[0], &byte, 1), 1);
  kill(parent, SIGKILL);
  waitpid(parent, nullptr, 0);
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "the pipe closes when the last writer is dead";
  close(ends[0]);
}

TEST(DieWithParentTest, ADeadParentEndsTheChildAtOnce) {
  const pid_t child = fork();
  if (child == 0) {
    DieWithParent(1 << 30);
    _exit(0);
  }
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 143);
}

TEST(ReportAddressTest, WaitsNoLongerThanTheTimeout) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  UniqueFd read_end(ends[0]), write_end(ends[1]);
  EXPECT_EQ(ReadReportedAddress(read_end.get(), absl::Milliseconds(5)).status().code(),
            absl::StatusCode::kDeadlineExceeded);
  ASSERT_TRUE(ReportAddress(write_end.Release(), "[::1]:7").ok());
  EXPECT_EQ(*ReadReportedAddress(read_end.get(), absl::Seconds(10)), "[::1]:7");
  EXPECT_TRUE(ReportAddress(-1, "unused").ok());
}

}  // namespace
}  // namespace shoal
