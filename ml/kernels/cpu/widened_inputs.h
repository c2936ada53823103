// Computes products of bfloat16 numbers with the float32 kernels. The results are correct but not
// faster than in float32.
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

// Makes the float32 kernel of `create` and wraps it: the wrapper converts the bfloat16 inputs to
// floats in the workspace. The conversion is exact, so only the sums are rounded.
absl::StatusOr<std::unique_ptr<Kernel>> CreateWithWidenedInputs(const KernelRequest& request,
                                                                CpuIsa isa,
                                                                const KernelFactory& create);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_WIDENED_INPUTS_H_
