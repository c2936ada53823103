// A compiled graph: kernels in order, with memory for what lives between them.
#ifndef SHOAL_ML_GRAPH_EXECUTABLE_H_
#define SHOAL_ML_GRAPH_EXECUTABLE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/types/span.h"

#include "ml/device/kernel.h"
#include "ml/graph/graph.h"

namespace shoal {

// All memory of one run that is not the executable's own, chosen anew per run. 64-byte aligned
// where the owner can; rows inside a batch need only their elements' alignment.
struct RunBindings {
  absl::Span<const void* const> inputs;  // in the order of the feeds
  absl::Span<const void* const>
      variables;                    // indexed as Graph::variables(); unread ones may be null
  absl::Span<void* const> outputs;  // in the order of the fetches, all there
  RandomKey key;                    // first_example is that of the first clone
  // One number per variable. The same number as in an earlier run of the executable means the same
  // bytes: devices with memory of their own keep their copy. 0 or an empty span: not known.
  absl::Span<const uint64_t> variable_versions = {};
};

// Not thread-safe: one run at a time. A run allocates nothing, and cannot fail on devices of the
// host. With one device it happens on the caller's thread; with several each has a thread of its
// own, which lives as long as the executable. `on_final(i, kAll)` is called the moment outputs[i]
// has its bytes, for every i, in the order of completion, on the thread of the device that computed
// it; where a kernel makes it in parts, before that with the number of first elements that are
// final, which grows from call to call.
class Executable {
 public:
  static constexpr int64_t kAll = INT64_MAX;
  using OnFinal = absl::FunctionRef<void(int output_index, int64_t num_elements)>;

  virtual ~Executable() = default;

  virtual void Run(const RunBindings& bindings, OnFinal on_final) = 0;
  void Run(const RunBindings& bindings) {
    Run(bindings, [](int, int64_t) {});
  }

  // Why a device with memory of its own has failed, in this run or before; outputs without their
  // on_final then mean nothing. OK as long as none has.
  virtual absl::Status status() const = 0;

  virtual const std::vector<TensorSpec>& output_specs() const = 0;
  // Returns whether the graph reads the variable at all.
  virtual bool ReadsVariable(int variable_index) const = 0;
  // Activations and scratch memory of all devices.
  virtual size_t arena_bytes() const = 0;
  // One line per step in the order of running: "device name = Op(shapes) -> shapes".
  virtual std::string ToString() const = 0;
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_EXECUTABLE_H_
