// Runs one kernel on tensors, for tests of kernels.
#ifndef SHOAL_ML_KERNELS_OP_RUNNER_H_
#define SHOAL_ML_KERNELS_OP_RUNNER_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/device.h"
#include "ml/device/kernel.h"
#include "ml/tensor/tensor.h"

namespace shoal {

// An op applied to values.
struct OpCall {
  std::string op;
  Attributes attributes;
  std::vector<Tensor> inputs;
  std::vector<TensorSpec> outputs;
};

struct OpRunOptions {
  int threads = 1;
  std::vector<bool> output_needed = {};  // empty: all
  RandomKey key = {};
  // The device of the kernel, which has memory of its own; null: the host.
  std::shared_ptr<Device> device = nullptr;
};

// Makes the kernel, runs it once and returns its outputs; outputs that are not needed are empty
// tensors. The workspace and the outputs are filled with noise before the run, so that tests notice
// a kernel that reads them or leaves elements unwritten.
absl::StatusOr<std::vector<Tensor>> RunOp(const KernelFactory& factory, const OpCall& call,
                                          const OpRunOptions& options = {});

// Returns the call with all float32 tensors converted to float64.
OpCall AsFloat64(const OpCall& call);

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_OP_RUNNER_H_
