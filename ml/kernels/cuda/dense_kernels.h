// Returns the kernels of MatMul, Dense and DenseGrad, which use cuBLASLt. Its epilogues compute
// bias, ReLU and the gradient of the bias.
#ifndef SHOAL_ML_KERNELS_CUDA_DENSE_KERNELS_H_
#define SHOAL_ML_KERNELS_CUDA_DENSE_KERNELS_H_

#include "ml/kernels/cuda/loops.h"

namespace shoal::cuda {

absl::Span<const LoopOp> DenseOps();

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_DENSE_KERNELS_H_
