// Kernels that write all their outputs, where a graph does not need all.
#ifndef SHOAL_ML_KERNELS_CPU_SCRATCH_OUTPUTS_H_
#define SHOAL_ML_KERNELS_CPU_SCRATCH_OUTPUTS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"

namespace shoal::cpu {

// The outputs that the op's kernel writes when these are needed: the index of a pool, even in
// evaluation; the gradient of the weights with that of a bias.
std::vector<bool> WrittenOutputs(const KernelRequest& request);

// The kernel of `create` with more outputs; those nobody needs lie in the workspace.
absl::StatusOr<std::unique_ptr<Kernel>> CreateWithScratchOutputs(const KernelRequest& request,
                                                                 const std::vector<bool>& written,
                                                                 const KernelFactory& create);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SCRATCH_OUTPUTS_H_
