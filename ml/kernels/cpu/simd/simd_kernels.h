// The loops of the CPU kernels. They are compiled once per instruction set; a kernel chooses its
// loops when it is made. The order of additions depends only on the sizes, so the same inputs give
// the same bytes on the same instruction set. Matrices are row-major, and dense unless there is a
// leading dimension (ld); counts are in elements.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_SIMD_KERNELS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_SIMD_KERNELS_H_

#include <cstdint>

#include "ml/kernels/cpu/simd/cpu_features.h"

namespace shoal::cpu {

enum class Activation { kNone, kRelu, kRelu6, kSigmoid, kTanh };

enum class UnaryOp {
  kIdentity,
  kRelu,
  kSigmoid,
  kTanh,
  kExp,
  kLog,
  kSqrt,
  kNeg,
  kAbs,
  kSquare,
  kReciprocal,
};

// The last three are gradients of activations: a is the output y, b the gradient dy. For the losses
// before them, a is the prediction and b the target; their ...Gradient is the derivative with
// respect to the prediction.
enum class BinaryOp {
  kAdd,
  kSub,
  kMul,
  kDiv,
  kMaximum,
  kMinimum,
  kSquaredDifference,
  kAbsoluteDifference,
  kAbsoluteDifferenceGradient,
  kHinge,
  kHingeGradient,
  kHuber,
  kHuberGradient,
  kSigmoidCrossEntropy,
  kSigmoidCrossEntropyGradient,
  kLogLoss,
  kLogLossGradient,
  kReluGradient,
  kSigmoidGradient,
  kTanhGradient,
};

// An array, or one value that is used for all indices.
struct Operand {
  const float* data;
  bool is_scalar;
};

struct SimdKernels {
  // y[i] = op(x[i]); x may be y.
  void (*unary)(UnaryOp op, const float* x, float* y, int64_t n);
  // c[i] = op(a[i], b[i]). `parameter`: Huber's delta, LogLoss's epsilon; else unused. c may be a
  // or b.
  void (*binary)(BinaryOp op, Operand a, Operand b, float* c, int64_t n, float parameter);
  // y[i] = factor * x[i] + offset.
  void (*scale)(const float* x, float factor, float offset, float* y, int64_t n);
  // sum[i] += x[i].
  void (*accumulate)(const float* x, float* sum, int64_t n);
  // c[i] = a[i] * b[i] + c[i]; one operand may be a scalar.
  void (*multiply_accumulate)(Operand a, Operand b, float* c, int64_t n);
  // y[r, c] = activation(y[r, c] + bias[c]); nothing is added if bias.data is null.
  void (*bias_activation)(float* y, int64_t rows, int64_t columns, int64_t ld, Operand bias,
                          Activation activation);
  // dz = dy * activation'(y), and column_sums[c] = the sum of dz over the rows. Either output may
  // be null if it is not needed.
  void (*activation_gradient)(Activation activation, const float* y, const float* dy, float* dz,
                              int64_t rows, int64_t columns, float* column_sums);

  // These sums are computed in float within blocks of 4096 elements; the sums of the blocks are
  // added in double.
  double (*sum)(const float* x, int64_t n);
  double (*sum_squares)(const float* x, int64_t n);
  double (*sum_squared_difference)(Operand a, Operand b, int64_t n);

  // y[r] = dot(x[r, :], w) for x [rows, columns].
  void (*matrix_vector)(const float* x, const float* w, float* y, int64_t rows, int64_t columns);
  // y[c] = sum over r of x[r, c] * v[r].
  void (*vector_matrix)(const float* x, const float* v, float* y, int64_t rows, int64_t columns);
  // c[r, :] = v[r] * w.
  void (*outer)(const float* v, const float* w, float* c, int64_t rows, int64_t columns);

  // probabilities = softmax(logits) of each row; log_sums[r] = log of the sum of exp(logits[r, :]).
  // log_sums may be null.
  void (*softmax)(const float* logits, float* probabilities, float* log_sums, int64_t rows,
                  int64_t columns);
};

// Returns the table of this instruction set, which is never destroyed.
const SimdKernels& SimdKernelsFor(CpuIsa isa);

namespace generic {
extern const SimdKernels kSimdKernels;
}
namespace avx2 {
extern const SimdKernels kSimdKernels;
}
namespace avx512 {
extern const SimdKernels kSimdKernels;
}

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_SIMD_KERNELS_H_
