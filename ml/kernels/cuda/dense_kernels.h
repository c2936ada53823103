// MatMul, Dense and DenseGrad by cuBLASLt, with bias, ReLU and the bias's gradient in its
// epilogues.
#ifndef SHOAL_ML_KERNELS_CUDA_DENSE_KERNELS_H_
#define SHOAL_ML_KERNELS_CUDA_DENSE_KERNELS_H_

#include "ml/kernels/cuda/loops.h"

namespace shoal::cuda {

absl::Span<const LoopOp> DenseOps();

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_DENSE_KERNELS_H_
