// The tasks of a run and where they serve, read from host lists or from a cluster file.
//
// Jobs are chief (at most one task), ps and worker. No task calls a worker: a worker serves only
// gRPC's health service, for probes. The workers' addresses tell how many workers the run has and
// where they run. A cluster without a chief is legal: worker 0's process hosts it then. An
// evaluator may be listed and is ignored, because it is not a member of the run.
#ifndef SHOAL_RUNTIME_CLUSTER_CLUSTER_SPEC_H_
#define SHOAL_RUNTIME_CLUSTER_CLUSTER_SPEC_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "runtime/cluster/task.h"

namespace shoal {

namespace v1 {
class ClusterSpec;
}

class ClusterSpec {
 public:
  ClusterSpec() = default;

  // Parses comma-separated lists like TensorFlow's: --ps_hosts, --worker_hosts, --chief_host.
  // Errors name the flag: bad addresses, an address that is given twice, two chiefs.
  static absl::StatusOr<ClusterSpec> FromHostLists(absl::string_view ps_hosts,
                                                   absl::string_view worker_hosts,
                                                   absl::string_view chief_host);

  // Parses a text proto of shoal.v1.ClusterSpec. `file_name` is for messages. Indices must be
  // 0..n-1 without gaps, in any order.
  static absl::StatusOr<ClusterSpec> FromText(absl::string_view text, absl::string_view file_name);
  static absl::StatusOr<ClusterSpec> FromFile(const std::string& path);

  v1::ClusterSpec ToProto() const;
  std::string ToText() const;  // The content of cluster.textproto.

  const std::string& chief() const { return chief_; }  // Empty: none is named.
  const std::vector<std::string>& ps() const { return ps_; }
  const std::vector<std::string>& workers() const { return workers_; }
  bool empty() const { return chief_.empty() && ps_.empty() && workers_.empty(); }

  void set_chief(std::string address) { chief_ = std::move(address); }
  void set_ps(std::vector<std::string> addresses) { ps_ = std::move(addresses); }
  void set_workers(std::vector<std::string> addresses) { workers_ = std::move(addresses); }

  // Returns the address of a task. NotFound names the number of tasks in its job.
  absl::StatusOr<std::string> Address(TaskId task) const;

 private:
  absl::Status CheckUnique() const;

  std::string chief_;
  std::vector<std::string> ps_;
  std::vector<std::string> workers_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_CLUSTER_SPEC_H_
