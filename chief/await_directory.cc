#include "chief/await_directory.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/log.h"
#include "runtime/observability/task_monitor.h"
#include "runtime/process/shutdown.h"
#include "runtime/task/task_options.h"

namespace shoal {
namespace {

constexpr auto kChief = RunLock::Holder::kChief;

// The time in which the lock of a killed chief is free again. Nothing is logged before.
constexpr absl::Duration kAtOnce = absl::Seconds(2);

constexpr absl::Duration kLookEvery = absl::Milliseconds(500);

absl::Duration WholeSeconds(absl::Duration time) {
  return absl::Floor(std::max(time, absl::ZeroDuration()), absl::Seconds(1));
}

// Returns text such as "pid 12 on host, for 3m20s".
std::string DescribeHolder(const std::string& out, absl::Time now) {
  std::string words = RunLock::ReadHolder(out, kChief);
  if (words.empty()) words = "a process that left no name";
  const absl::StatusOr<std::optional<absl::Time>> since = RunLock::HeldSince(out, kChief);
  if (since.ok() && since->has_value()) {
    absl::StrAppend(&words, ", for ", absl::FormatDuration(WholeSeconds(now - **since)));
  }
  return words;
}

// Returns why the chief waits, such as "is held by another chief, pid 12 on host".
std::string WhyNotLocked(const std::string& out, const absl::Status& status, absl::Time now) {
  if (absl::IsAlreadyExists(status)) {
    return absl::StrCat("is held by another chief, ", DescribeHolder(out, now));
  }
  return absl::StrCat("cannot be locked now (", status.message(), ")");
}

// The task's status and metrics while it waits.
class Waiting : public TaskSource {
 public:
  explicit Waiting(const TaskOptions& options) : options_(options) {}
  TaskStatus Status() const override {
    TaskStatus status;
    status.activity = absl::StrCat("waits for another chief, or the file system, to let go of ",
                                   options_.run.out());
    status.waits_for = DescribeHolder(options_.run.out(), options_.clock->Now());
    return status;
  }
  void Collect(MetricPage* /*page*/) const override {}

 private:
  const TaskOptions& options_;
};

}  // namespace

absl::StatusOr<RunLock> AwaitDirectory(const TaskOptions& options, absl::Duration log_every) {
  const std::string& out = options.run.out();
  const Clock& clock = *options.clock;
  const absl::Duration patience = absl::Seconds(options.run.cluster().wait_seconds());
  const absl::Time begun = clock.Now();
  absl::StatusOr<RunLock> lock = RunLock::Acquire(out, kChief, std::min(kAtOnce, patience));
  const Waiting source(options);
  const TaskMonitor::Shown shown(options.monitor, TaskId{Job::kChief, 0}, &source);
  absl::Time next_log = clock.Now();
  while (absl::IsAlreadyExists(lock.status()) || absl::IsUnavailable(lock.status())) {
    const absl::Time now = clock.Now();
    const std::string why = WhyNotLocked(out, lock.status(), now);
    if (now - begun >= patience) {
      return absl::UnavailableError(absl::StrCat(
          "--out: ", out, " ", why, "; waited ", absl::FormatDuration(patience),
          " for it. End the other chief (a host that is gone keeps its lock until the file system "
          "takes it back), repair the file system, or raise cluster.wait_seconds"));
    }
    if (now >= next_log) {
      next_log = now + log_every;
      LOG(WARNING) << out << " " << why << "; waiting " << WholeSeconds(now - begun)
                   << " for it; this chief ends after " << patience;
    }
    if (options.shutdown->WaitFor(kLookEvery)) {
      return absl::CancelledError(absl::StrCat("asked to stop while it waited: ", out, " ", why));
    }
    lock = RunLock::Acquire(out, kChief);
  }
  return lock;
}

}  // namespace shoal
