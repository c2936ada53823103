// The kernels of CPU devices. They compute in float32 with oneDNN and with loops of this folder.
#ifndef SHOAL_ML_KERNELS_CPU_CPU_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_CPU_KERNELS_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

#include "ml/device/kernel.h"
#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal {

// Makes a CPU kernel. Returns NotFound if the op has no CPU kernel, Unimplemented if it has none
// for these types (both errors name the op and the types), and InvalidArgument if the shapes do not
// fit. A kernel gives the same bytes for the same inputs, number of threads, instruction set and
// library.
absl::StatusOr<std::unique_ptr<Kernel>> CreateCpuKernel(const KernelRequest& request);

// The same, but the loops of this folder use the given instruction set, which the machine must
// have. For tests.
absl::StatusOr<std::unique_ptr<Kernel>> CreateCpuKernel(const KernelRequest& request,
                                                        cpu::CpuIsa isa);

// Returns whether the op's kernel accepts this layout for an input or output; see LayoutSupport in
// kernel.h.
bool CpuKernelSupportsLayout(absl::string_view op, const Attributes& attributes, Port port,
                             int index, Layout layout);

// Returns the sorted names of all ops that have a CPU kernel.
std::vector<std::string> CpuKernelOps();

// Returns the backend of CPU devices for the graph compiler.
KernelBackend CpuKernelBackend();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_CPU_CPU_KERNELS_H_
