// Chooses a device of this process for every node by TensorFlow's rules.
#ifndef SHOAL_ML_GRAPH_PLACER_H_
#define SHOAL_ML_GRAPH_PLACER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/graph/graph.h"

namespace shoal {

struct PlacerOptions {
  // The devices of this process as complete specs, such as "/job:worker/task:0/device:CPU:0". At
  // least one is a CPU.
  std::vector<DeviceSpec> devices;
  // If true (soft placement), a node whose device or kernel is missing is placed on the CPU of the
  // same index or, if there is none, on the first CPU.
  bool allow_soft_placement = true;
  // Returns whether devices of the type have a kernel for the node; empty: they all have one.
  std::function<bool(absl::string_view device_type, const Node& node)> has_kernel;
  // Receives one line "name: (Op): /job:worker/task:0/device:CPU:0" per node; may be empty.
  std::function<void(const std::string& line)> log;
};

// Returns the complete specs of a task's devices, given by short names such as "/cpu:0" or
// "/gpu:1".
absl::StatusOr<std::vector<DeviceSpec>> LocalDevices(absl::string_view job, int task,
                                                     const std::vector<std::string>& names);

// Returns, for each node id, the index of its device in options.devices, or -1 for a variable that
// another job owns. A node that requests no device is placed on the first GPU if GPUs have a kernel
// for it, otherwise on the first CPU. Without soft placement, a request that cannot be met is an
// error that names the node, its op and the available devices.
absl::StatusOr<std::vector<int>> PlaceNodes(const Graph& graph, const PlacerOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_PLACER_H_
