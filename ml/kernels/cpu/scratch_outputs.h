// Adapts kernels that write more outputs than a graph needs.
#ifndef SHOAL_ML_KERNELS_CPU_SCRATCH_OUTPUTS_H_
#define SHOAL_ML_KERNELS_CPU_SCRATCH_OUTPUTS_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"

namespace shoal::cpu {

// Returns which outputs the op's kernel writes for those that are needed: the index of a pool also
// in evaluation, the gradient of the weights with that of a bias.
std::vector<bool> WrittenOutputs(const KernelRequest& request);

// Makes the kernel of `create` with more outputs; the ones that are not needed lie in the
// workspace.
absl::StatusOr<std::unique_ptr<Kernel>> CreateWithScratchOutputs(const KernelRequest& request,
                                                                 const std::vector<bool>& written,
                                                                 const KernelFactory& create);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SCRATCH_OUTPUTS_H_
