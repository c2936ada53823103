// The loops of the CPU kernels that are our own, compiled once per instruction set and chosen when
// a kernel is made. Every loop has a fixed order of additions for given sizes: the same inputs give
// the same bytes on the same instruction set. All matrices are row-major and dense unless a leading
// dimension is given; counts are in elements.
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

// The last three are gradients of an activation: a is its output y, b the gradient dy. The losses
// before them take (prediction, target); their ...Gradient is the derivative by the prediction.
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

// A vector operand, or one value that stands for all elements.
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
  // y[r, c] = activation(y[r, c] + bias[c]); bias null = none.
  void (*bias_activation)(float* y, int64_t rows, int64_t columns, int64_t ld, Operand bias,
                          Activation activation);
  // dz = dy * activation'(y), and column_sums[c] = sum over rows of dz (overwritten; null = not
  // wanted). dz null: only the sums.
  void (*activation_gradient)(Activation activation, const float* y, const float* dy, float* dz,
                              int64_t rows, int64_t columns, float* column_sums);

  // Sums are added in float within blocks of 4096 elements and in double beyond.
  double (*sum)(const float* x, int64_t n);
  double (*sum_squares)(const float* x, int64_t n);
  double (*sum_squared_difference)(Operand a, Operand b, int64_t n);

  // y[r] = dot(x[r, :], w) for x [rows, columns].
  void (*matrix_vector)(const float* x, const float* w, float* y, int64_t rows, int64_t columns);
  // y[c] = sum over r of x[r, c] * v[r].
  void (*vector_matrix)(const float* x, const float* v, float* y, int64_t rows, int64_t columns);
  // c[r, :] = v[r] * w.
  void (*outer)(const float* v, const float* w, float* c, int64_t rows, int64_t columns);

  // probabilities = softmax(logits) by rows; log_sums[r] (may be null) = log of the sum of
  // exp(logits[r, :]).
  void (*softmax)(const float* logits, float* probabilities, float* log_sums, int64_t rows,
                  int64_t columns);
};

// The table lives for the whole program.
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
