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

// Checks --metrics_address; empty means that it was not given. `insecure`: other machines may reach
// it.
absl::Status CheckMetricsAddress(const std::string& address, bool insecure);

// The port of --metrics_address: serves the pages of a TaskMonitor, and says in the run's directory
// where, for Prometheus' file_sd: monitoring/chief-0.json, removed at an orderly end. It gives the
// target no labels: `run` of the samples would become `exported_run` beside one of the same name.
class MonitoringPort {
 public:
  struct Options {
    std::string address;
    bool insecure = false;  // May serve where other machines can connect.
    TaskId task;
    std::string run_directory;
    FileSystem* file_system = nullptr;  // Borrowed, as is the next.
    const TaskMonitor* monitor = nullptr;
  };

  // Errors as CheckMetricsAddress, and FAILED_PRECONDITION for a port in use.
  static absl::StatusOr<std::unique_ptr<MonitoringPort>> Open(const Options& options);
  ~MonitoringPort();
  MonitoringPort(const MonitoringPort&) = delete;
  MonitoringPort& operator=(const MonitoringPort&) = delete;

  const std::string& address() const { return server_->address(); }

 private:
  explicit MonitoringPort(const Options& options) : options_(options) {}
  void WriteTarget();

  const Options options_;
  std::string target_file_;  // Empty: it could not be written.
  std::unique_ptr<HttpServer> server_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TASK_MONITORING_PORT_H_
