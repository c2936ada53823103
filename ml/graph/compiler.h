// Compiles a graph into an Executable: it removes nodes that the fetches do not need, fuses nodes,
// chooses layouts, orders the steps, plans the memory and makes the kernels. An executable is for
// one batch size; the caller keeps one for each size.
#ifndef SHOAL_ML_GRAPH_COMPILER_H_
#define SHOAL_ML_GRAPH_COMPILER_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

#include "ml/device/kernel.h"
#include "ml/graph/executable.h"
#include "ml/graph/graph.h"
#include "ml/graph/placer.h"

namespace shoal {

struct CompileRequest {
  const Graph* graph = nullptr;

  struct Feed {
    Output placeholder;
    Shape shape;  // known
  };
  std::vector<Feed> feeds;      // ordered as RunBindings::inputs
  std::vector<Output> fetches;  // ordered as RunBindings::outputs

  // The number of examples n_i of each clone. The loss of clone i has the weight n_i / sum of all
  // n, and clones without examples are left out. Empty: all clones have the same weight.
  std::vector<int64_t> clone_examples;

  PlacerOptions placer;
  const KernelBackend* backend = nullptr;          // the backend of CPU devices
  std::vector<const KernelBackend*> accelerators;  // the backends of the other device types
  int threads_per_device = 1;
  // True if devices of one type with their own memory form a group, if their backend has groups.
  // The group sums values among its devices, and a variable that all devices read is uploaded to
  // one device, which broadcasts it to the others. Set it for clones whose only exchanged values
  // are sums; all other exchanges remain plain copies. If the group cannot be opened, everything is
  // exchanged by plain copies.
  bool group_devices = false;
  // True if devices with their own memory record their steps in the second run and replay them in
  // later runs. A device that waits for other devices or draws random numbers cannot do this, and a
  // log line gives the reason. The outputs of a replay become final at its end, not one by one.
  bool record_steps = false;
  // kFloat32, or kBfloat16, to which the operands of matrix products and convolutions are then
  // rounded; see docs/devices.md.
  DataType compute_dtype = DataType::kFloat32;
  bool fuse = true;
  bool choose_layouts = true;
};

// Returns whether devices of this type have a kernel for the node; true for a type that belongs to
// none of the backends. For PlacerOptions::has_kernel.
bool HasKernel(absl::Span<const KernelBackend* const> backends, absl::string_view device_type,
               const Node& node);

// Compiles the graph of the request. Returns InvalidArgument or Unimplemented, with the name of the
// node, if shapes do not fit or a kernel is missing, or the error of a device that cannot be opened
// or has too little memory.
//
// Devices whose backend has open_device have their own memory. A value that is needed in another
// memory is copied there once. Feeds and variables are uploaded in one packed area at the start of
// a run; outputs are downloaded in packed groups as they become final.
absl::StatusOr<std::unique_ptr<Executable>> Compile(const CompileRequest& request);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_COMPILER_H_
