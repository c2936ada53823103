#include "worker/replica/trained_variables.h"

#include <errno.h>
#include <sys/syscall.h>

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(TrainedVariablesTest, ARunThatCannotBeSeenNowIsNotMissing) {
  std::string directory = ::testing::TempDir() + "/trained.XXXXXX";
  ASSERT_NE(mkdtemp(directory.data()), nullptr);
  CommandLine line;
  line.run.set_out(directory);
  EXPECT_THAT(FindFinishedRun(line),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("it has no run.textproto")));
  RunWithFailingCall(SYS_newfstatat, ESTALE, [&line] {
    EXPECT_THAT(FindFinishedRun(line), StatusIs(absl::StatusCode::kUnavailable));
  });
}

TEST(TrainedVariablesTest, ACheckpointThatCannotBeSeenNowIsNotMissing) {
  FaultyFileSystem disk;
  ASSERT_OK(disk.MakeDirectory("run"));
  ASSERT_OK(WriteAtomically(disk, "run/run.textproto", ""));
  const auto open = [&disk] { return OpenCheckpoint(&disk, "run", std::nullopt).status(); };
  const int before = disk.faults().num_reads();
  EXPECT_THAT(open(), StatusIs(absl::StatusCode::kNotFound, HasSubstr("has no checkpoint yet")));
  const int reads = disk.faults().num_reads() - before;
  ASSERT_EQ(reads, 3) << "it looks for checkpoints, run.textproto and summary.json";
  for (int read = 0; read < reads; ++read) {
    disk.faults().FailReadAt(disk.faults().num_reads() + read, absl::UnavailableError("stale"));
    EXPECT_THAT(open(), StatusIs(absl::StatusCode::kUnavailable)) << "read " << read;
    disk.faults().StopFailing();
  }
  ASSERT_OK(WriteAtomically(disk, "run/summary.json", ""));
  EXPECT_THAT(open(), StatusIs(absl::StatusCode::kNotFound,
                               HasSubstr("has ended without a checkpoint; `shoal status run` says "
                                         "how to continue, or name the directory of another run")));
}

TEST(TrainedVariablesTest, ARunWhoseCheckpointsWereRemovedIsNotTakenForOneWithoutAny) {
  FaultyFileSystem disk;
  ASSERT_OK(disk.MakeDirectory("run/checkpoints"));
  ASSERT_OK(WriteAtomically(disk, "run/run.textproto", ""));
  ASSERT_OK(WriteAtomically(disk, "run/summary.json", ""));
  ASSERT_OK(WriteAtomically(disk, "run/checkpoints/LATEST", "ckpt-9-1-0000000000000001\n"));
  for (const std::optional<uint64_t> step : {std::optional<uint64_t>(), {9}}) {
    EXPECT_EQ(OpenCheckpoint(&disk, "run", step).status(),
              absl::FailedPreconditionError(
                  "run/checkpoints/LATEST: names ckpt-9-1-0000000000000001, but no checkpoint is "
                  "there any more; bring it back, or name the directory of another run"));
  }
}

TEST(TrainedVariablesTest, ADirectoryThatCannotBeSeenNowIsNotMissing) {
  FaultyFileSystem disk;
  EXPECT_OK(CheckDirectoryOf(disk, "--model_file", "x.safetensors"));
  EXPECT_THAT(CheckDirectoryOf(disk, "--model_file", "none/x.safetensors"),
              StatusIs(absl::StatusCode::kNotFound,
                       HasSubstr("--model_file: cannot write none/x.safetensors: there is no "
                                 "directory none; create it")));
  disk.faults().FailReadAt(disk.faults().num_reads(), absl::UnavailableError("stale"));
  EXPECT_THAT(CheckDirectoryOf(disk, "--model_file", "none/x.safetensors"),
              StatusIs(absl::StatusCode::kUnavailable));
}

}  // namespace
}  // namespace shoal
