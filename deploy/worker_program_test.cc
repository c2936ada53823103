#include "deploy/worker_program.h"

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/un.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>
#include <memory>
#include <string>
#include <thread>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/file_system.h"
#include "base/unique_fd.h"
#include "runtime/process/shutdown.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class WorkerProgramTest : public ::testing::Test {
 protected:
  // A program that is a shell script.
  std::string Script(const std::string& body, mode_t mode = 0755) {
    const std::string path = absl::StrCat(
        ::testing::TempDir(), "/", ::testing::UnitTest::GetInstance()->current_test_info()->name());
    std::ofstream(path) << "#!/bin/sh\n" << body << "\n";
    EXPECT_EQ(chmod(path.c_str(), mode), 0);
    return path;
  }

  absl::StatusOr<v1::WorkerProgram> Ask(const std::string& path,
                                        absl::Duration timeout = absl::Seconds(60)) {
    v1::RunConfig run;
    run.set_name("asked");
    run.set_out("/nowhere");
    run.mutable_deployment()->set_worker_binary(path);
    return AskWorkerProgram(run, files_.get(), shutdown_, timeout);
  }

  void ExpectRefused(const std::string& path, absl::StatusCode code, const std::string& words) {
    const absl::Status status = Ask(path).status();
    EXPECT_EQ(status.code(), code) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(words));
    EXPECT_EQ(status.message().find('\n'), absl::string_view::npos) << status;
  }

  // Shell for: $answer is where the answer goes.
  static constexpr char kFindAnswer[] =
      "for a in \"$@\"; do case $a in --answer=*) answer=${a#--answer=} ;; esac; done\n";
  ShutdownNotification shutdown_;
  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
};

TEST_F(WorkerProgramTest, DescribesItsModel) {
  const auto program = Ask(Script(absl::StrCat(
      kFindAnswer, "echo a model may print\n",
      "printf 'protocol: 3\\nmodel { train_examples: 7 }\\nmissing_devices: \"/gpu:0\"\\n' "
      ">\"$answer\"")));
  ASSERT_TRUE(program.ok()) << program.status();
  EXPECT_EQ(program->model().train_examples(), 7u);
  EXPECT_EQ(program->missing_devices(0), "/gpu:0");
}

TEST_F(WorkerProgramTest, IsAskedAboutTheRun) {
  const auto program = Ask(Script(absl::StrCat(
      kFindAnswer, "[ \"$1\" = declare ] || exit 3\n",
      "for a in \"$@\"; do case $a in --run=*) run=${a#--run=} ;; esac; done\n",
      "grep -q 'name: \"asked\"' \"$run\" || exit 4\n", "echo 'protocol: 3' >\"$answer\"")));
  EXPECT_TRUE(program.ok()) << program.status();
}

TEST_F(WorkerProgramTest, MustBeAProgram) {
  ExpectRefused("/nowhere/program", absl::StatusCode::kNotFound,
                "worker_binary: there is no /nowhere/program; build it");
  ExpectRefused("/tmp", absl::StatusCode::kPermissionDenied, "worker_binary: /tmp is not a file");
  const std::string path = absl::StrCat(::testing::TempDir(), "/no_format");
  std::ofstream(path) << "neither a script nor a program\n";
  ASSERT_EQ(chmod(path.c_str(), 0755), 0);
  ExpectRefused(path, absl::StatusCode::kFailedPrecondition, "Exec format error");
}

TEST_F(WorkerProgramTest, MustBeExecutable) {
  ExpectRefused(Script("", 0644), absl::StatusCode::kPermissionDenied, "may not be executed");
}

TEST_F(WorkerProgramTest, AProgramThatCannotBeSeenNowIsNotForbidden) {
  const std::string path = Script("exit 0");
  RunWithFailingCall(SYS_access, ESTALE, [this, &path] {
    ExpectRefused(path, absl::StatusCode::kUnavailable, "worker_binary: " + path);
  });
}

// No process can open a socket as a file: ENXIO, as from a device that is away.
TEST_F(WorkerProgramTest, AnAnswerThatCannotBeReadNowIsNotTheProgramsFault) {
  std::string directory = "/tmp/shoal_test_XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = directory + "/socket";
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  const UniqueFd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  ASSERT_EQ(bind(socket.get(), reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  ExpectRefused(Script(absl::StrCat(kFindAnswer, "ln -s ", path, " \"$answer\"")),
                absl::StatusCode::kUnavailable, "/answer");
  EXPECT_TRUE(RemoveTree(*files_, directory).ok());
}

TEST_F(WorkerProgramTest, AProgramThatEndsWithoutAnAnswerIsNamed) {
  ExpectRefused(Script("echo 'cannot find libfoo.so' >&2; exit 127"),
                absl::StatusCode::kFailedPrecondition,
                "ended when it was asked for its model: exit code 127 (exit code 127): cannot find "
                "libfoo.so");
  ExpectRefused(Script("kill -SEGV $$"), absl::StatusCode::kFailedPrecondition,
                "killed by SIGSEGV");
  ExpectRefused(Script("exit 0"), absl::StatusCode::kFailedPrecondition,
                "gave no answer, so it is not a worker program");
}

TEST_F(WorkerProgramTest, ErrorsAboutTheRunArePassedOn) {
  const absl::Status status =
      Ask(Script("echo 'shoal declare: data.directory: is damaged' >&2; echo more; exit 65"))
          .status();
  EXPECT_EQ(status, absl::DataLossError("data.directory: is damaged"));
}

TEST_F(WorkerProgramTest, AnotherProtocolIsRefused) {
  ExpectRefused(Script(absl::StrCat(kFindAnswer, "printf 'protocol: 7\\nnews: 1\\n' >\"$answer\"")),
                absl::StatusCode::kFailedPrecondition,
                "speaks protocol 7, this shoal 3; build both from the same sources");
}

TEST_F(WorkerProgramTest, AProgramWithADamagedAnswerIsRefused) {
  ExpectRefused(Script(absl::StrCat(kFindAnswer, "echo hello >\"$answer\"")),
                absl::StatusCode::kFailedPrecondition, "without a protocol version");
}

TEST_F(WorkerProgramTest, IsNotWaitedForForEver) {
  const absl::Status status = Ask(Script("sleep 600"), absl::Milliseconds(200)).status();
  // Not one that says: start me again.
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("did not report within 200ms"));
}

TEST_F(WorkerProgramTest, IsEndedByAShutdown) {
  const std::string fifo = absl::StrCat(::testing::TempDir(), "/asked");
  ASSERT_EQ(mkfifo(fifo.c_str(), 0600), 0);
  pid_t pid = 0;
  std::string scratch;
  std::thread stopper([&] {
    std::ifstream(fifo) >> pid >> scratch;  // the program writes them once it runs
    shutdown_.Request(SIGINT);
  });
  const absl::Status status = Ask(Script(absl::StrCat(kFindAnswer, "echo $$ ${answer%/answer} >",
                                                      fifo, "\nsleep 600\necho late")))
                                  .status();
  stopper.join();
  EXPECT_EQ(status, absl::CancelledError("stopped before the run had started"));
  EXPECT_EQ(kill(pid, 0), -1) << pid;
  EXPECT_THAT(scratch, HasSubstr("/tmp/shoal_"));
  EXPECT_FALSE(files_->GetInfo(scratch).ok()) << scratch;
}

TEST_F(WorkerProgramTest, AProgramThatWritesWithoutEndIsStopped) {
  ExpectRefused(Script("exec yes"), absl::StatusCode::kFailedPrecondition, "writes without end");
}

TEST_F(WorkerProgramTest, ReplacesThisProcessOnlyIfItCan) {
  EXPECT_TRUE(absl::IsNotFound(BecomeProgram("/nowhere/program", {})));
  // It would do so again and again if it did not refuse.
  EXPECT_THAT(std::string(BecomeProgram("/proc/self/exe", {"--gtest_filter=-*"}).message()),
              HasSubstr("is this program"));
}

}  // namespace
}  // namespace shoal
