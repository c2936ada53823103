// Products of bfloat16 numbers by the float32 kernels: right, and no faster.
#ifndef SHOAL_ML_KERNELS_CPU_WIDENED_INPUTS_H_
#define SHOAL_ML_KERNELS_CPU_WIDENED_INPUTS_H_

#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "ml/device/kernel.h"
#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

// Returns whether an input or output is bfloat16.
bool HasBfloat16(const KernelRequest& request);

// Returns whether the op is a product, whose inputs may be bfloat16.
bool TakesBfloat16Factors(absl::string_view op);

// The kernel of `create` for float32, behind copies of the bfloat16 inputs as floats, which lie in
// the workspace. Widening is exact, so nothing is rounded but the sums.
absl::StatusOr<std::unique_ptr<Kernel>> CreateWithWidenedInputs(const KernelRequest& request,
                                                                CpuIsa isa,
                                                                const KernelFactory& create);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_WIDENED_INPUTS_H_
