// The families of loops: in namespace on_device for a GPU, in on_host for the host.
#ifndef SHOAL_ML_KERNELS_CUDA_LOOP_FAMILIES_H_
#define SHOAL_ML_KERNELS_CUDA_LOOP_FAMILIES_H_

#include <limits>
#include <memory>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"

#include "ml/kernels/cuda/loops.h"

namespace shoal::cuda {

using KernelOr = absl::StatusOr<std::unique_ptr<Kernel>>;
namespace on_device {
absl::Span<const LoopOp> ElementLoops();
absl::Span<const LoopOp> ReductionLoops();
absl::Span<const LoopOp> ImageLoops();
absl::Span<const LoopOp> NormLoops();
absl::Span<const LoopOp> MoveLoops();
absl::Span<const LoopOp> LookupLoops();
absl::Span<const LoopOp> FeatureLoops();
}  // namespace on_device
namespace on_host {
absl::Span<const LoopOp> ElementLoops();
absl::Span<const LoopOp> ReductionLoops();
absl::Span<const LoopOp> ImageLoops();
absl::Span<const LoopOp> NormLoops();
absl::Span<const LoopOp> MoveLoops();
absl::Span<const LoopOp> LookupLoops();
absl::Span<const LoopOp> FeatureLoops();
}  // namespace on_host
}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_LOOP_FAMILIES_H_
