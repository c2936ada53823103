// A compiled graph: kernels in the order of execution, and the memory for the values between them.
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

// The memory of the caller that one run uses; every run may use other memory. It should be 64-byte
// aligned; rows inside a batch need only the alignment of their elements.
struct RunBindings {
  absl::Span<const void* const> inputs;  // ordered as the feeds
  // Indexed as Graph::variables(); null is allowed for variables that the graph does not read.
  absl::Span<const void* const> variables;
  absl::Span<void* const> outputs;  // ordered as the fetches; none may be null
  RandomKey key;                    // its first_example is that of the first clone
  // One number per variable. If it is the same as in an earlier run of this executable, the
  // variable must have the same bytes, and devices with their own memory keep their copy. 0 or an
  // empty span: not known.
  absl::Span<const uint64_t> variable_versions = {};
};

// Not thread-safe: only one run at a time. A run allocates no memory, and it cannot fail on devices
// of the host. With one device it uses the caller's thread; with several, each device has its own
// thread, which lives as long as the executable.
//
// Run calls `on_final(i, kAll)` once for every output i as soon as outputs[i] is complete, in the
// order of completion, on the thread of the device that computed it. If a kernel computes the
// output in parts, `on_final(i, n)` is called before that, when the first n elements are final; n
// grows from call to call.
class Executable {
 public:
  static constexpr int64_t kAll = INT64_MAX;
  using OnFinal = absl::FunctionRef<void(int output_index, int64_t num_elements)>;

  virtual ~Executable() = default;

  virtual void Run(const RunBindings& bindings, OnFinal on_final) = 0;
  void Run(const RunBindings& bindings) {
    Run(bindings, [](int, int64_t) {});
  }

  // Returns the first error of a device with its own memory, in this run or before; OK if none has
  // failed. After an error, outputs without a call of on_final are undefined.
  virtual absl::Status status() const = 0;

  virtual const std::vector<TensorSpec>& output_specs() const = 0;
  // Returns the bytes of activations and scratch memory on all devices.
  virtual size_t arena_bytes() const = 0;
  // Returns one line for each step in the order of execution: "device name = Op(shapes) -> shapes".
  virtual std::string ToString() const = 0;
};

}  // namespace shoal

#endif  // SHOAL_ML_GRAPH_EXECUTABLE_H_
