// Compiles a graph into something that runs: prune to the fetches, fuse, choose layouts, order,
// plan memory, make kernels. Once per batch size; the caller keeps the results.
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
  std::vector<Feed> feeds;      // in the order of RunBindings::inputs
  std::vector<Output> fetches;  // in the order of RunBindings::outputs

  // Examples of each clone's batch: clone i's loss weighs n_i / sum, a clone without examples is
  // left out. Empty: all alike.
  std::vector<int64_t> clone_examples;

  PlacerOptions placer;
  const KernelBackend* backend = nullptr;          // of CPU devices
  std::vector<const KernelBackend*> accelerators;  // of the other types
  int threads_per_device = 1;
  // Devices of one type with memory of their own add what they compute as a group, where their
  // backend has groups, and a variable that all read goes up to one of them, which gives it to the
  // others. For clones that only meet in their sums; others exchange plain copies all the same,
  // as do devices whose group cannot be opened.
  bool group_devices = false;
  // Devices with their own memory record their steps in the second run and replay them from then
  // on, if they do not wait for other devices and no step draws random numbers; otherwise a log
  // line gives the reason. The results of a replay are announced at its end.
  bool record_steps = false;
  // kBfloat16: factors of products are rounded to it, see docs/devices.md. Else kFloat32.
  DataType compute_dtype = DataType::kFloat32;
  bool fuse = true;
  bool choose_layouts = true;
};

// Returns whether devices of the type have a kernel for the node, for PlacerOptions::has_kernel;
// true for a type that none of the backends serves.
bool HasKernel(absl::Span<const KernelBackend* const> backends, absl::string_view device_type,
               const Node& node);

// InvalidArgument or Unimplemented, naming the node, where something does not fit or has no kernel;
// what a device says that cannot be opened or has too little memory.
//
// Devices of backends with open_device have memory of their own: values that cross to another
// memory are copied once for each that reads them, feeds and variables go up packed at the start of
// a run, outputs come down packed as they become final.
absl::StatusOr<std::unique_ptr<Executable>> Compile(const CompileRequest& request);

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_COMPILER_H_
