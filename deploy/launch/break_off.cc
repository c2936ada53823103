#include "deploy/launch/break_off.h"

#include <unistd.h>

#include <cstdio>
#include <memory>
#include <optional>
#include <thread>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/notification.h"
#include "deploy/launch/reconstructed_summary.h"
#include "deploy/launch/result_printer.h"

namespace shoal {
namespace {

constexpr absl::Duration kLastWords = absl::Seconds(1);

void PrintStopped(const v1::RunConfig& run, const std::string& command) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  // A run that cannot be seen now may have begun.
  const absl::StatusOr<std::optional<FileInfo>> run_file =
      FindFile(*files, JoinPath(run.out(), "run.textproto"));
  const bool has_begun = !run_file.ok() || run_file->has_value();
  const Summary summary =
      SummaryFromFiles(absl::CancelledError("a second signal"), {}, run.out(), files.get());
  // A bar that was being drawn ends where it is.
  std::fprintf(stderr, "%sstopped at once\n", isatty(STDERR_FILENO) != 0 ? "\n" : "");
  if (has_begun) {
    PrintHowToResume(summary, run, command);
  } else {
    std::printf("checkpoint:    none: the run had not begun; the same command begins it\n");
  }
  std::fflush(stdout);
}

}  // namespace

void BreakOff(int signal, const v1::RunConfig& run, const std::string& command) {
  const auto printed = std::make_shared<Notification>();
  std::thread([printed, run, command] {
    PrintStopped(run, command);
    printed->Notify();
  }).detach();
  printed->WaitFor(kLastWords);
  _exit(128 + signal);
}

}  // namespace shoal
