// Returns the kernels of Conv, ConvGrad and ConvTranspose, which use cuDNN.
#ifndef SHOAL_ML_KERNELS_CUDA_CONVOLUTION_KERNELS_H_
#define SHOAL_ML_KERNELS_CUDA_CONVOLUTION_KERNELS_H_

#include "ml/kernels/cuda/loops.h"

namespace shoal::cuda {

absl::Span<const LoopOp> ConvolutionOps();

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_CONVOLUTION_KERNELS_H_
