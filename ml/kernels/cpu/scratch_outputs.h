// Adapts kernels that write more outputs than a graph needs.
#ifndef SHOAL_ML_KERNELS_CPU_SCRATCH_OUTPUTS_H_
#define SHOAL_ML_KERNELS_CPU_SCRATCH_OUTPUTS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"

namespace shoal::cpu {

// Returns for each output whether the op's kernel writes it, also if it is not needed: a pool
// always writes its index, and a kernel that computes the gradient of the bias also computes that
// of the weights.
std::vector<bool> WrittenOutputs(const KernelRequest& request);

// Makes the kernel of `create` with all `written` outputs; those that are not needed are written to
// the workspace.
absl::StatusOr<std::unique_ptr<Kernel>> CreateWithScratchOutputs(const KernelRequest& request,
                                                                 const std::vector<bool>& written,
                                                                 const KernelFactory& create);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SCRATCH_OUTPUTS_H_
