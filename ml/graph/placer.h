// Chooses a device of this process for every node, by TensorFlow's rules.
#ifndef SHOAL_ML_GRAPH_PLACER_H_
#define SHOAL_ML_GRAPH_PLACER_H_

#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/graph/graph.h"

namespace shoal {

struct PlacerOptions {
  // The devices of this process, complete: "/job:worker/task:0/device:CPU:0". At least one CPU.
  std::vector<DeviceSpec> devices;
  // Soft placement: where a kernel or a device is missing, the node goes to the CPU of the same
  // index, else to the first CPU.
  bool allow_soft_placement = true;
  // Returns whether devices of the type have a kernel for the node; empty: they all have one.
  std::function<bool(absl::string_view device_type, const Node& node)> has_kernel;
  // Gets one line "name: (Op): /job:worker/task:0/device:CPU:0" per node; empty: no log.
  std::function<void(const std::string& line)> log;
};

// Complete devices named by a job, a task and short names such as "/cpu:0" or "/gpu:1".
absl::StatusOr<std::vector<DeviceSpec>> LocalDevices(absl::string_view job, int task,
                                                     const std::vector<std::string>& names);

// Returns, for each node id, the index of its device in options.devices, or -1 for a variable that
// another job owns. A node that names no device goes to the first GPU that has a kernel, else to
// the first CPU. Without soft placement a node that cannot have what it asks for is an error that
// names the node, its op and the devices that there are.
absl::StatusOr<std::vector<int>> PlaceNodes(const Graph& graph, const PlacerOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_PLACER_H_
