// The reference kernels, with which tests compare all other kernels. They are plain loops for
// float32 and float64 that add in double. Only ReorderLayout supports other layouts than the plain
// one. Ops and attributes are those of the kernels of a device. For tests only.
#ifndef SHOAL_ML_KERNELS_REFERENCE_REFERENCE_KERNELS_H_
#define SHOAL_ML_KERNELS_REFERENCE_REFERENCE_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/kernel.h"

namespace shoal {

// Returns NotFound if the op has no reference kernel, and Unimplemented if it has none for these
// types or layouts.
absl::StatusOr<std::unique_ptr<Kernel>> CreateReferenceKernel(const KernelRequest& request);

// Returns the sorted names of all ops that have a reference kernel.
std::vector<std::string> ReferenceKernelOps();

// Returns a backend with these kernels and without fused ops.
KernelBackend ReferenceKernelBackend();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_REFERENCE_REFERENCE_KERNELS_H_
