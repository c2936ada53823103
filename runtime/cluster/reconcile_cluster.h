// Brings the host lists of a cluster and the numbers of tasks in a run file together.
#ifndef SHOAL_RUNTIME_CLUSTER_RECONCILE_CLUSTER_H_
#define SHOAL_RUNTIME_CLUSTER_RECONCILE_CLUSTER_H_

#include "absl/status/status.h"

#include "proto/v1/run_config.pb.h"
#include "runtime/cluster/cluster_spec.h"

namespace shoal {

// Writes the numbers of ps and workers that the host lists name into the run where it is silent. A
// different number in the run is an error that names both. Call before ResolveDefaults.
absl::Status ReconcileCluster(const ClusterSpec& cluster, v1::RunConfig* run);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CLUSTER_RECONCILE_CLUSTER_H_
