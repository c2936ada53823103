// The kernels that judge all others: plain loops with sums in double, float32 and float64, plain
// layout, the same op names and attributes as the kernels of a device. For tests only.
#ifndef SHOAL_ML_KERNELS_REFERENCE_REFERENCE_KERNELS_H_
#define SHOAL_ML_KERNELS_REFERENCE_REFERENCE_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"

namespace shoal {

// NotFound for an op that has no kernel, Unimplemented for its dtypes or layouts.
absl::StatusOr<std::unique_ptr<Kernel>> CreateReferenceKernel(const KernelRequest& request);

// Names of all ops with a reference kernel, sorted.
std::vector<std::string> ReferenceKernelOps();

// All of the above as a backend of a graph, without fused ops.
KernelBackend ReferenceKernelBackend();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_REFERENCE_REFERENCE_KERNELS_H_
