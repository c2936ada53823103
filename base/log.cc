#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/mutex.h"
#include "base/passing_errors.h"

namespace shoal {
namespace {

// The log file of this process. It is global, because all lines of a process go to the same place.
struct LogTarget {
  Mutex mutex;
  std::string task ABSL_GUARDED_BY(mutex);
  int file_descriptor ABSL_GUARDED_BY(mutex) = STDERR_FILENO;
  std::atomic<LogSeverity> min_severity{LogSeverity::kInfo};
};

LogTarget& Target() {
  static LogTarget* const target = new LogTarget;  // Never destroyed: threads may log at exit.
  return *target;
}

void WriteAll(int file_descriptor, const std::string& line) {
  size_t written = 0;
  while (written < line.size()) {
    const ssize_t n = write(file_descriptor, line.data() + written, line.size() - written);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;  // Nowhere left to say so.
    written += n;
  }
}

const char* BaseName(const char* path) {
  const char* slash = strrchr(path, '/');
  return slash == nullptr ? path : slash + 1;
}

}  // namespace

absl::Status SetUpLog(const LogOptions& options) {
  int file_descriptor = STDERR_FILENO;
  if (!options.file.empty()) {
    file_descriptor = open(options.file.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
    if (file_descriptor < 0) {
      return StatusOfErrno(errno, absl::StrCat("cannot open the log file ", options.file));
    }
  }
  LogTarget& target = Target();
  target.min_severity.store(options.min_severity, std::memory_order_relaxed);
  MutexLock lock(&target.mutex);
  target.task = options.task;
  if (target.file_descriptor != STDERR_FILENO) close(target.file_descriptor);
  target.file_descriptor = file_descriptor;
  return absl::OkStatus();
}

namespace internal {

bool IsLogged(LogSeverity severity) {
  return severity >= Target().min_severity.load(std::memory_order_relaxed);
}

LogMessage::LogMessage(const char* file, int line, LogSeverity severity)
    : file_(BaseName(file)), line_(line), severity_(severity) {}

LogMessage::~LogMessage() {
  const std::string time = absl::FormatTime("%H:%M:%E3S", absl::Now(), absl::LocalTimeZone());
  const std::string message = absl::StrReplaceAll(stream_.str(), {{"\n", "\\n"}});
  const char severity = "IWEF"[static_cast<int>(severity_)];
  LogTarget& target = Target();
  {
    MutexLock lock(&target.mutex);
    const std::string line =
        absl::StrCat(std::string(1, severity), " ", time, " ", target.task,
                     target.task.empty() ? "" : " ", file_, ":", line_, "] ", message, "\n");
    WriteAll(target.file_descriptor, line);
    if (severity_ >= LogSeverity::kError && target.file_descriptor != STDERR_FILENO) {
      WriteAll(STDERR_FILENO, line);
    }
  }
  if (severity_ == LogSeverity::kFatal) std::abort();
}

FatalLogMessage::~FatalLogMessage() {
  // The base class writes the line and aborts; it must run before this function ends.
  this->LogMessage::~LogMessage();
  std::abort();
}

std::unique_ptr<std::string> DescribeUnlessOk(const absl::Status& status, const char* what) {
  if (status.ok()) return nullptr;
  return std::make_unique<std::string>(
      absl::StrCat("Check failed: ", what, " is OK (", status.ToString(), ") "));
}

}  // namespace internal
}  // namespace shoal
