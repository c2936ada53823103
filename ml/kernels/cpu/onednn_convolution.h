#ifndef SHOAL_ML_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
#define SHOAL_ML_KERNELS_CPU_ONEDNN_CONVOLUTION_H_

#include <memory>

#include "absl/status/statusor.h"

#include "ml/kernels/cpu/convolution_primitive.h"

namespace shoal::cpu {

// Makes the product as a primitive of oneDNN. If it needs another layout than that of the buffers,
// it reorders the elements in the workspace. Unimplemented if oneDNN does not have it.
absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateOnednnConvolution(
    const ConvolutionOptions& options);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_ONEDNN_CONVOLUTION_H_
