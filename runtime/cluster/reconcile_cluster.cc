#include "runtime/cluster/reconcile_cluster.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"
#include "runtime/config/rule.h"

namespace shoal {
namespace {

// Compares the number of tasks in a list of addresses with that in the run.
absl::Status Reconcile(absl::string_view field, absl::string_view hosts, size_t count, bool given,
                       uint32_t value) {
  if (!given || value == count) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("is ", value, ", but ", hosts, " names ", count,
                                          count == 1 ? " task" : " tasks",
                                          "; drop one of the two or make them agree"));
}

}  // namespace

absl::Status ReconcileCluster(const ClusterSpec& cluster, v1::RunConfig* run) {
  v1::DeploymentOptions* deployment = run->mutable_deployment();
  if (!cluster.ps().empty()) {
    RETURN_IF_ERROR(Reconcile("num_ps_tasks", "ps_hosts", cluster.ps().size(),
                              deployment->has_num_ps_tasks(), deployment->num_ps_tasks()));
    deployment->set_num_ps_tasks(static_cast<uint32_t>(cluster.ps().size()));
  }
  if (cluster.workers().empty()) return absl::OkStatus();
  RETURN_IF_ERROR(Reconcile("num_replicas", "worker_hosts", cluster.workers().size(),
                            deployment->has_num_replicas(), deployment->num_replicas()));
  deployment->set_num_replicas(static_cast<uint32_t>(cluster.workers().size()));
  return absl::OkStatus();
}

}  // namespace shoal
