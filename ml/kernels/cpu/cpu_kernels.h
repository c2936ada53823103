// The kernels of CPU devices: float32, oneDNN and our own loops.
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

// NotFound for an op without a CPU kernel, Unimplemented for its dtypes (both name op and dtypes),
// InvalidArgument for shapes that do not fit. Run gives the same bytes for the same inputs,
// threads, instruction set and library.
absl::StatusOr<std::unique_ptr<Kernel>> CreateCpuKernel(const KernelRequest& request);

// The same with our own loops held to an instruction set that the machine has: for tests.
absl::StatusOr<std::unique_ptr<Kernel>> CreateCpuKernel(const KernelRequest& request,
                                                        cpu::CpuIsa isa);

// Returns whether the op's kernel takes or gives this layout at the port: see LayoutSupport in
// kernel.h.
bool CpuKernelSupportsLayout(absl::string_view op, const Attributes& attributes, Port port,
                             int index, Layout layout);

// Names of all ops with a CPU kernel, sorted.
std::vector<std::string> CpuKernelOps();

// All of the above for the graph compiler.
KernelBackend CpuKernelBackend();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_CPU_CPU_KERNELS_H_
