// Runs one kernel on tensors: for tests of kernels.
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

// The outputs; those not needed are empty tensors. The workspace and the outputs are filled with
// noise before, so that a kernel that reads them or leaves a hole is seen.
absl::StatusOr<std::vector<Tensor>> RunOp(const KernelFactory& factory, const OpCall& call,
                                          const OpRunOptions& options = {});

// The call with float64 in the place of float32.
OpCall AsFloat64(const OpCall& call);

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_OP_RUNNER_H_
