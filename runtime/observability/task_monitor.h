// The pages of a task over HTTP: /metrics, /healthz, /readyz, /statusz, and / for browsers.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_TASK_MONITOR_H_
#define SHOAL_RUNTIME_OBSERVABILITY_TASK_MONITOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/time/time.h"

#include "base/mutex.h"
#include "runtime/cluster/task.h"
#include "runtime/observability/http_server.h"
#include "runtime/observability/run_page.h"

namespace shoal {

class Clock;
class MetricPage;

// The status of a role, for users and probes.
struct TaskStatus {
  bool ready = false;
  std::string activity;   // The current activity; for a role that is not ready: what is missing.
  std::string waits_for;  // Tasks that the run waits for, as far as this task knows; may be empty.
  uint64_t step = 0;      // The newest update that it knows.
  std::optional<double> steps_per_second;
  std::optional<double> examples_per_second;
  // The directory of the newest checkpoint; empty if there is none or this role does not know it.
  std::string last_checkpoint;
  std::optional<double> seconds_since_checkpoint;
};

// A role with status and metrics. The functions are called on any thread, also while the role
// works. TaskMonitor holds its lock meanwhile, so they should not wait.
class TaskSource {
 public:
  virtual ~TaskSource() = default;
  virtual TaskStatus Status() const = 0;
  virtual void Collect(MetricPage* page) const = 0;
  // Returns the page of the run; only the chief has one.
  virtual std::optional<RunPage> DescribeRun() const { return std::nullopt; }
};

// The pages of one process, about the roles that run in it. Thread-safe.
class TaskMonitor {
 public:
  struct Options {
    TaskId task;           // The process: labels of metrics about the whole process.
    std::string run_name;  // The run's name; a label of every sample, as are role and task.
    std::string run_directory;
    std::string version;           // Version of the program,
    uint32_t protocol = 0;         // and of its protocol with the other tasks.
    std::string cluster;           // The other tasks, in one line; may be empty.
    const Clock* clock = nullptr;  // Borrowed.
  };

  explicit TaskMonitor(Options options);

  // Shows a role on the pages from its construction to its destruction. With a null monitor it does
  // nothing.
  class Shown {
   public:
    Shown(TaskMonitor* monitor, TaskId role, const TaskSource* source);
    ~Shown();
    Shown(const Shown&) = delete;
    Shown& operator=(const Shown&) = delete;

   private:
    TaskMonitor* const monitor_;
    const TaskSource* const source_;
  };

  // Answers a request. /healthz returns 200. /readyz returns 200 if a role is shown and every role
  // shown is ready, otherwise 503 with the reason. /statusz returns text, or JSON with
  // ?format=json. /metrics returns Prometheus' text format. / returns the page of the run if the
  // client accepts HTML and a chief is shown, otherwise a line with activity and step, and the
  // names of the pages. Other paths return 404.
  HttpResponse Answer(const HttpRequest& request) const;

  // Returns the text of /statusz, for logs.
  std::string StatusText() const;

 private:
  struct Role {
    TaskId id;
    const TaskSource* source;
  };

  HttpResponse Ready() const;
  HttpResponse Index(const std::string& accept) const;
  // Returns the first line of / for clients that do not accept HTML: activity and step.
  std::string StatusLine() const;
  std::string StatusJson() const;
  std::string Metrics() const;
  absl::Duration uptime() const;

  const Options options_;
  const absl::Time started_;
  // Held while a source is called, so that a role is removed only after that.
  mutable Mutex mutex_;
  std::vector<Role> roles_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_TASK_MONITOR_H_
