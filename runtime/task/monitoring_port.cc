#include "runtime/task/monitoring_port.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/log.h"
#include "base/status_macros.h"
#include "runtime/cluster/address.h"

namespace shoal {
namespace {

constexpr char kDirectory[] = "monitoring";
constexpr char kBeforeAddress[] = "[{\"targets\": [\"";
constexpr char kAfterAddress[] = "\"]}]\n";

}  // namespace

absl::Status CheckMetricsAddress(const std::string& address, bool insecure) {
  if (address.empty()) return absl::OkStatus();
  RETURN_IF_ERROR(CheckAddress("--metrics_address", address, AddressUse::kListenHttp));
  if (insecure || IsLoopbackAddress(address)) return absl::OkStatus();
  return absl::PermissionDeniedError(absl::StrCat(
      "--metrics_address: ", address,
      " can be reached by other machines, and the pages are not encrypted; give --insecure on a "
      "trusted network"));
}

absl::StatusOr<std::unique_ptr<MonitoringPort>> MonitoringPort::Open(const Options& options) {
  RETURN_IF_ERROR(CheckMetricsAddress(options.address, options.insecure));
  std::unique_ptr<MonitoringPort> port(new MonitoringPort(options));
  absl::StatusOr<std::unique_ptr<HttpServer>> server = HttpServer::Start(
      options.address,
      [monitor = options.monitor](const HttpRequest& request) { return monitor->Answer(request); });
  if (!server.ok()) {
    return absl::Status(server.status().code(),
                        absl::StrCat("--metrics_address: ", server.status().message()));
  }
  port->server_ = *std::move(server);
  LOG(INFO) << "metrics at http://" << port->address() << "/metrics"
            << (options.task.job == Job::kChief
                    ? absl::StrCat(", the page of the run at http://", port->address(), "/")
                    : "");
  port->WriteTarget();
  return port;
}

void MonitoringPort::WriteTarget() {
  const std::string directory = JoinPath(options_.run_directory, kDirectory);
  const std::string text = absl::StrCat(kBeforeAddress, DialledAddress(address()), kAfterAddress);
  absl::Status status = options_.file_system->MakeDirectory(directory);
  const std::string path = JoinPath(directory, options_.task.FileStem() + ".json");
  if (status.ok()) status = WriteAtomically(*options_.file_system, path, text);
  if (status.ok()) {
    target_file_ = path;
  } else {
    LOG(WARNING) << "Prometheus will not find this task by itself: " << status;
  }
}

MonitoringPort::~MonitoringPort() {
  if (!target_file_.empty()) options_.file_system->Remove(target_file_).IgnoreError();
}

std::string MonitoredAddress(FileSystem* file_system, const std::string& run_directory,
                             TaskId task) {
  const absl::StatusOr<std::string> text = ReadFile(
      *file_system, JoinPath(JoinPath(run_directory, kDirectory), task.FileStem() + ".json"));
  if (!text.ok()) return "";
  absl::string_view address = *text;
  const bool is_whole =
      absl::ConsumePrefix(&address, kBeforeAddress) && absl::ConsumeSuffix(&address, kAfterAddress);
  return is_whole ? std::string(address) : "";
}

std::string PageLine(const std::string& address) {
  return absl::StrCat("the page of the run: http://", DialledAddress(address), "/");
}

}  // namespace shoal
