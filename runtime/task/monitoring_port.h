#ifndef SHOAL_RUNTIME_TASK_MONITORING_PORT_H_
#define SHOAL_RUNTIME_TASK_MONITORING_PORT_H_

#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "runtime/observability/http_server.h"
#include "runtime/observability/task_monitor.h"

namespace shoal {

class FileSystem;

// Checks --metrics_address; empty means that it was not given. With `insecure` other machines may
// reach it.
absl::Status CheckMetricsAddress(const std::string& address, bool insecure);

// Serves the pages of a TaskMonitor at --metrics_address, and writes the address to the run's
// directory for Prometheus' file_sd: monitoring/chief-0.json, which is removed at an orderly end.
// The file gives the target no labels, because a label `run` would rename that of the samples to
// `exported_run`.
class MonitoringPort {
 public:
  struct Options {
    std::string address;
    bool insecure = false;  // Allows addresses that other machines can reach.
    TaskId task;
    std::string run_directory;
    FileSystem* file_system = nullptr;  // Borrowed, like the next one.
    const TaskMonitor* monitor = nullptr;
  };

  // Returns the errors of CheckMetricsAddress, and FAILED_PRECONDITION if the port is in use.
  static absl::StatusOr<std::unique_ptr<MonitoringPort>> Open(const Options& options);
  ~MonitoringPort();
  MonitoringPort(const MonitoringPort&) = delete;
  MonitoringPort& operator=(const MonitoringPort&) = delete;

  const std::string& address() const { return server_->address(); }

 private:
  explicit MonitoringPort(const Options& options) : options_(options) {}
  void WriteTarget();

  const Options options_;
  std::string target_file_;  // Empty if it could not be written.
  std::unique_ptr<HttpServer> server_;
};

// Returns the address of the task's MonitoringPort from the run's directory; "" if it is not there.
std::string MonitoredAddress(FileSystem* file_system, const std::string& run_directory,
                             TaskId task);

// Returns the line with which a launcher names the page of the run; `address` is the chief's.
std::string PageLine(const std::string& address);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_MONITORING_PORT_H_
