// The body of SimdKernels for one instruction set: see simd_kernels.h and vector.h.

#include "ml/kernels/cpu/simd/simd_kernels.h"

#include "ml/kernels/cpu/simd/map_elements.h"
#include "ml/kernels/cpu/simd/vector.h"
#include "ml/kernels/cpu/simd/vector_math.h"

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {
namespace {

// ---- elementwise
// ----------------------------------------------------------------------------------------------------

void Unary(UnaryOp op, const float* x, float* y, int64_t n) {
  switch (op) {
    case UnaryOp::kIdentity:
      return MapUnary(x, y, n, [](Vec v) { return v; });
    case UnaryOp::kRelu:
      // Max returns its second operand when one is not a number: NaN stays.
      return MapUnary(x, y, n, [](Vec v) { return Max(Zero(), v); });
    case UnaryOp::kSigmoid:
      return MapUnary(x, y, n, [](Vec v) { return Sigmoid(v); });
    case UnaryOp::kTanh:
      return MapUnary(x, y, n, [](Vec v) { return Tanh(v); });
    case UnaryOp::kExp:
      return MapUnary(x, y, n, [](Vec v) { return Exp(v); });
    case UnaryOp::kLog:
      return MapUnary(x, y, n, [](Vec v) { return Log(v); });
    case UnaryOp::kSqrt:
      return MapUnary(x, y, n, [](Vec v) { return Sqrt(v); });
    case UnaryOp::kNeg:
      return MapUnary(x, y, n, [](Vec v) { return -v; });
    case UnaryOp::kAbs:
      return MapUnary(x, y, n, [](Vec v) { return Abs(v); });
    case UnaryOp::kSquare:
      return MapUnary(x, y, n, [](Vec v) { return v * v; });
    case UnaryOp::kReciprocal:
      return MapUnary(x, y, n, [](Vec v) { return Set1(1.0f) / v; });
  }
}

inline Vec ReluGradient(Vec y, Vec dy) { return SelectGreater(y, Zero(), dy, Zero()); }
// Computes Clip from 0 to 6. Min and Max return their second operand when one is not a number: NaN
// stays.
inline Vec Relu6(Vec v) { return Min(Set1(6.0f), Max(Zero(), v)); }
inline Vec Relu6Gradient(Vec y, Vec dy) {
  return SelectGreater(Set1(6.0f), y, ReluGradient(y, dy), Zero());
}
inline Vec SigmoidGradient(Vec y, Vec dy) { return dy * y * (Set1(1.0f) - y); }
inline Vec TanhGradient(Vec y, Vec dy) { return dy * (Set1(1.0f) - y * y); }

inline Vec Sign(Vec v) {
  return SelectGreater(v, Zero(), Set1(1.0f), SelectGreater(Zero(), v, Set1(-1.0f), Zero()));
}

// Labels 0 and 1 stand for -1 and +1.
inline Vec HingeMargin(Vec logit, Vec label) {
  return Set1(1.0f) - (label + label - Set1(1.0f)) * logit;
}

// max(x, 0) - x * z + log(1 + exp(-|x|)), which never overflows.
inline Vec SigmoidCrossEntropy(Vec logit, Vec label) {
  const Vec softplus = Log(Set1(1.0f) + Exp(Zero() - Abs(logit)));
  return Max(Zero(), logit) - logit * label + softplus;
}

void BinaryLoss(BinaryOp op, Operand a, Operand b, float* c, int64_t n, float parameter) {
  const Vec one = Set1(1.0f);
  const Vec k = Set1(parameter);
  switch (op) {
    case BinaryOp::kSquaredDifference:
      return MapBinary(a, b, c, n, [](Vec p, Vec t) { return (p - t) * (p - t); });
    case BinaryOp::kAbsoluteDifference:
      return MapBinary(a, b, c, n, [](Vec p, Vec t) { return Abs(p - t); });
    case BinaryOp::kAbsoluteDifferenceGradient:
      return MapBinary(a, b, c, n, [](Vec p, Vec t) { return Sign(p - t); });
    case BinaryOp::kHinge:
      return MapBinary(a, b, c, n, [](Vec p, Vec t) { return Max(Zero(), HingeMargin(p, t)); });
    case BinaryOp::kHingeGradient:
      return MapBinary(a, b, c, n, [one](Vec p, Vec t) {
        return SelectGreater(HingeMargin(p, t), Zero(), one - (t + t), Zero());
      });
    case BinaryOp::kHuber:
      return MapBinary(a, b, c, n, [k](Vec p, Vec t) {
        const Vec e = Abs(p - t);
        const Vec quadratic = Min(e, k);
        return Set1(0.5f) * quadratic * quadratic + k * (e - quadratic);
      });
    case BinaryOp::kHuberGradient:
      return MapBinary(a, b, c, n, [k](Vec p, Vec t) { return Max(Min(p - t, k), Zero() - k); });
    case BinaryOp::kSigmoidCrossEntropy:
      return MapBinary(a, b, c, n, [](Vec p, Vec t) { return SigmoidCrossEntropy(p, t); });
    case BinaryOp::kSigmoidCrossEntropyGradient:
      return MapBinary(a, b, c, n, [](Vec p, Vec t) { return Sigmoid(p) - t; });
    case BinaryOp::kLogLoss:
      return MapBinary(a, b, c, n, [one, k](Vec p, Vec t) {
        return Zero() - t * Log(p + k) - (one - t) * Log(one - p + k);
      });
    case BinaryOp::kLogLossGradient:
      return MapBinary(a, b, c, n,
                       [one, k](Vec p, Vec t) { return (one - t) / (one - p + k) - t / (p + k); });
    default:
      return;
  }
}

void Binary(BinaryOp op, Operand a, Operand b, float* c, int64_t n, float parameter) {
  switch (op) {
    case BinaryOp::kAdd:
      return MapBinary(a, b, c, n, [](Vec x, Vec y) { return x + y; });
    case BinaryOp::kSub:
      return MapBinary(a, b, c, n, [](Vec x, Vec y) { return x - y; });
    case BinaryOp::kMul:
      return MapBinary(a, b, c, n, [](Vec x, Vec y) { return x * y; });
    case BinaryOp::kDiv:
      return MapBinary(a, b, c, n, [](Vec x, Vec y) { return x / y; });
    case BinaryOp::kMaximum:
      return MapBinary(a, b, c, n, [](Vec x, Vec y) { return SelectNan(x, x, Max(x, y)); });
    case BinaryOp::kMinimum:
      return MapBinary(a, b, c, n, [](Vec x, Vec y) { return SelectNan(x, x, Min(x, y)); });
    case BinaryOp::kReluGradient:
      return MapBinary(a, b, c, n, [](Vec y, Vec dy) { return ReluGradient(y, dy); });
    case BinaryOp::kSigmoidGradient:
      return MapBinary(a, b, c, n, [](Vec y, Vec dy) { return SigmoidGradient(y, dy); });
    case BinaryOp::kTanhGradient:
      return MapBinary(a, b, c, n, [](Vec y, Vec dy) { return TanhGradient(y, dy); });
    default:
      return BinaryLoss(op, a, b, c, n, parameter);
  }
}

void Scale(const float* x, float factor, float offset, float* y, int64_t n) {
  const Vec f = Set1(factor);
  const Vec o = Set1(offset);
  if (offset == 0.0f) return MapUnary(x, y, n, [f](Vec v) { return v * f; });
  MapUnary(x, y, n, [f, o](Vec v) { return v * f + o; });
}

void Accumulate(const float* x, float* sum, int64_t n) {
  MapBinary({sum, false}, {x, false}, sum, n, [](Vec s, Vec v) { return s + v; });
}

void MultiplyAccumulate(Operand a, Operand b, float* c, int64_t n) {
  int64_t i = 0;
  const Vec va = Set1(a.is_scalar ? *a.data : 0.0f);
  const Vec vb = Set1(b.is_scalar ? *b.data : 0.0f);
  for (; i + kLanes <= n; i += kLanes) {
    Store(c + i, Fma(a.is_scalar ? va : Load(a.data + i), b.is_scalar ? vb : Load(b.data + i),
                     Load(c + i)));
  }
  if (i < n) {
    const Vec part_a = a.is_scalar ? va : LoadPart(a.data + i, n - i);
    const Vec part_b = b.is_scalar ? vb : LoadPart(b.data + i, n - i);
    StorePart(c + i, Fma(part_a, part_b, LoadPart(c + i, n - i)), n - i);
  }
}

// ---- dense layers
// ---------------------------------------------------------------------------------------------------

template <typename Function>
inline void BiasMap(float* y, int64_t rows, int64_t columns, int64_t ld, Operand bias, Function f) {
  const float zero = 0.0f;
  if (bias.data == nullptr) bias = {&zero, true};
  for (int64_t r = 0; r < rows; ++r, y += ld) {
    MapBinary({y, false}, bias, y, columns, [f](Vec v, Vec b) { return f(v + b); });
  }
}

void BiasActivation(float* y, int64_t rows, int64_t columns, int64_t ld, Operand bias,
                    Activation activation) {
  if (ld == columns && (bias.data == nullptr || bias.is_scalar)) {
    columns *= rows;
    rows = 1;
  }
  switch (activation) {
    case Activation::kNone:
      if (bias.data == nullptr) return;
      return BiasMap(y, rows, columns, ld, bias, [](Vec v) { return v; });
    case Activation::kRelu:
      return BiasMap(y, rows, columns, ld, bias, [](Vec v) { return Max(Zero(), v); });
    case Activation::kRelu6:
      return BiasMap(y, rows, columns, ld, bias, [](Vec v) { return Relu6(v); });
    case Activation::kSigmoid:
      return BiasMap(y, rows, columns, ld, bias, [](Vec v) { return Sigmoid(v); });
    case Activation::kTanh:
      return BiasMap(y, rows, columns, ld, bias, [](Vec v) { return Tanh(v); });
  }
}

// Columns are taken kBlock vectors at a time, so that the sums stay in registers while the rows go
// by.
template <bool kStore, int kBlock, typename Function>
inline void GradientColumns(const float* y, const float* dy, float* dz, int64_t rows, int64_t ld,
                            float* sums, Function f) {
  Vec total[kBlock];
  for (int v = 0; v < kBlock; ++v) total[v] = Zero();
  for (int64_t r = 0; r < rows; ++r) {
    for (int v = 0; v < kBlock; ++v) {
      const int64_t at = r * ld + v * kLanes;
      const Vec z = f(Load(y + at), Load(dy + at));
      if (kStore) Store(dz + at, z);
      total[v] = total[v] + z;
    }
  }
  if (sums == nullptr) return;
  for (int v = 0; v < kBlock; ++v) Store(sums + v * kLanes, total[v]);
}

template <bool kStore, typename Function>
inline void GradientAndSums(const float* y, const float* dy, float* dz, int64_t rows,
                            int64_t columns, float* sums, Function f) {
  constexpr int kBlock = 8;
  int64_t c = 0;
  for (; c + kBlock * kLanes <= columns; c += kBlock * kLanes) {
    GradientColumns<kStore, kBlock>(y + c, dy + c, kStore ? dz + c : nullptr, rows, columns,
                                    sums == nullptr ? nullptr : sums + c, f);
  }
  for (; c + kLanes <= columns; c += kLanes) {
    GradientColumns<kStore, 1>(y + c, dy + c, kStore ? dz + c : nullptr, rows, columns,
                               sums == nullptr ? nullptr : sums + c, f);
  }
  if (c == columns) return;
  Vec total = Zero();
  const int64_t n = columns - c;
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t at = r * columns + c;
    const Vec z = f(LoadPart(y + at, n), LoadPart(dy + at, n));
    if (kStore) StorePart(dz + at, z, n);
    total = total + z;
  }
  if (sums != nullptr) StorePart(sums + c, total, n);
}

template <typename Function>
inline void GradientMap(const float* y, const float* dy, float* dz, int64_t rows, int64_t columns,
                        float* sums, Function f) {
  if (sums == nullptr) {
    if (dz != nullptr) MapBinary({y, false}, {dy, false}, dz, rows * columns, f);
  } else if (dz != nullptr) {
    GradientAndSums<true>(y, dy, dz, rows, columns, sums, f);
  } else {
    GradientAndSums<false>(y, dy, dz, rows, columns, sums, f);
  }
}

void ActivationGradient(Activation activation, const float* y, const float* dy, float* dz,
                        int64_t rows, int64_t columns, float* sums) {
  switch (activation) {
    case Activation::kNone:
      return GradientMap(dy, dy, dz, rows, columns, sums, [](Vec, Vec g) { return g; });
    case Activation::kRelu:
      return GradientMap(y, dy, dz, rows, columns, sums,
                         [](Vec v, Vec g) { return ReluGradient(v, g); });
    case Activation::kRelu6:
      return GradientMap(y, dy, dz, rows, columns, sums,
                         [](Vec v, Vec g) { return Relu6Gradient(v, g); });
    case Activation::kSigmoid:
      return GradientMap(y, dy, dz, rows, columns, sums,
                         [](Vec v, Vec g) { return SigmoidGradient(v, g); });
    case Activation::kTanh:
      return GradientMap(y, dy, dz, rows, columns, sums,
                         [](Vec v, Vec g) { return TanhGradient(v, g); });
  }
}

// ---- sums
// -----------------------------------------------------------------------------------------------------------

template <typename Function>
inline double SumMap(int64_t n, Function f) {
  constexpr int64_t kBlock = 4096;
  double total = 0.0;
  for (int64_t start = 0; start < n; start += kBlock) {
    const int64_t end = start + kBlock < n ? start + kBlock : n;
    Vec sums[4] = {Zero(), Zero(), Zero(), Zero()};
    int64_t i = start;
    for (; i + 4 * kLanes <= end; i += 4 * kLanes) {
      for (int v = 0; v < 4; ++v) sums[v] = f(sums[v], i + v * kLanes, int64_t{kLanes});
    }
    for (; i < end; i += kLanes) sums[0] = f(sums[0], i, end - i < kLanes ? end - i : kLanes);
    total += static_cast<double>(SumLanes((sums[0] + sums[1]) + (sums[2] + sums[3])));
  }
  return total;
}

inline Vec LoadAt(const float* p, int64_t i, int64_t n) {
  return n == kLanes ? Load(p + i) : LoadPart(p + i, n);
}

double Sum(const float* x, int64_t n) {
  return SumMap(n, [x](Vec s, int64_t i, int64_t m) { return s + LoadAt(x, i, m); });
}

double SumSquares(const float* x, int64_t n) {
  return SumMap(n, [x](Vec s, int64_t i, int64_t m) {
    const Vec v = LoadAt(x, i, m);
    return Fma(v, v, s);
  });
}

double SumSquaredDifference(Operand a, Operand b, int64_t n) {
  if (a.is_scalar && b.is_scalar) {
    const double d = static_cast<double>(*a.data) - static_cast<double>(*b.data);
    return d * d * static_cast<double>(n);
  }
  if (a.is_scalar) {
    const Operand swap = a;
    a = b;
    b = swap;
  }
  const float* x = a.data;
  const float* y = b.data;
  if (!b.is_scalar) {
    return SumMap(n, [x, y](Vec s, int64_t i, int64_t m) {
      const Vec d = LoadAt(x, i, m) - LoadAt(y, i, m);
      return Fma(d, d, s);
    });
  }
  const Vec fixed = Set1(*y);
  return SumMap(n, [x, y, fixed](Vec s, int64_t i, int64_t m) {
    const Vec d = m == kLanes ? Load(x + i) - fixed : LoadPart(x + i, m, *y) - fixed;
    return Fma(d, d, s);
  });
}

// ---- one column
// -----------------------------------------------------------------------------------------------------

inline float Dot(const float* x, const float* w, int64_t n) {
  Vec sums[2] = {Zero(), Zero()};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    sums[0] = Fma(Load(x + i), Load(w + i), sums[0]);
    sums[1] = Fma(Load(x + i + kLanes), Load(w + i + kLanes), sums[1]);
  }
  for (; i < n; i += kLanes) {
    const int64_t m = n - i < kLanes ? n - i : kLanes;
    sums[0] = Fma(LoadAt(x, i, m), LoadAt(w, i, m), sums[0]);
  }
  return SumLanes(sums[0] + sums[1]);
}

void MatrixVector(const float* x, const float* w, float* y, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) y[r] = Dot(x + r * columns, w, columns);
}

template <int kBlock>
inline void VectorMatrixColumns(const float* x, const float* v, float* y, int64_t rows,
                                int64_t ld) {
  // Rows are added in runs of 256, so that an error grows with the number of runs, not of rows.
  Vec total[kBlock];
  for (int b = 0; b < kBlock; ++b) total[b] = Zero();
  for (int64_t start = 0; start < rows; start += 256) {
    const int64_t end = start + 256 < rows ? start + 256 : rows;
    Vec run[kBlock];
    for (int b = 0; b < kBlock; ++b) run[b] = Zero();
    for (int64_t r = start; r < end; ++r) {
      const Vec factor = Set1(v[r]);
      for (int b = 0; b < kBlock; ++b) {
        run[b] = Fma(factor, Load(x + r * ld + b * kLanes), run[b]);
      }
    }
    for (int b = 0; b < kBlock; ++b) total[b] = total[b] + run[b];
  }
  for (int b = 0; b < kBlock; ++b) Store(y + b * kLanes, total[b]);
}

void VectorMatrix(const float* x, const float* v, float* y, int64_t rows, int64_t columns) {
  constexpr int kBlock = 8;
  int64_t c = 0;
  for (; c + kBlock * kLanes <= columns; c += kBlock * kLanes) {
    VectorMatrixColumns<kBlock>(x + c, v, y + c, rows, columns);
  }
  for (; c + kLanes <= columns; c += kLanes) {
    VectorMatrixColumns<1>(x + c, v, y + c, rows, columns);
  }
  if (c == columns) return;
  Vec total = Zero();
  for (int64_t r = 0; r < rows; ++r) {
    total = Fma(Set1(v[r]), LoadPart(x + r * columns + c, columns - c), total);
  }
  StorePart(y + c, total, columns - c);
}

void Outer(const float* v, const float* w, float* c, int64_t rows, int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    MapBinary({v + r, true}, {w, false}, c + r * columns, columns,
              [](Vec a, Vec b) { return a * b; });
  }
}

// ---- softmax
// --------------------------------------------------------------------------------------------------------

void SoftmaxRow(const float* x, float* p, float* log_sum, int64_t n) {
  const float lowest = -__builtin_inff();
  Vec best = Set1(lowest);
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) best = Max(Load(x + i), best);
  if (i < n) best = Max(LoadPart(x + i, n - i, lowest), best);
  const Vec shift = Set1(MaxLane(best));
  Vec total = Zero();
  for (i = 0; i + kLanes <= n; i += kLanes) {
    const Vec e = Exp(Load(x + i) - shift);
    Store(p + i, e);
    total = total + e;
  }
  if (i < n) {
    const Vec e = Exp(LoadPart(x + i, n - i, lowest) - shift);
    StorePart(p + i, e, n - i);
    total = total + e;
  }
  const float sum = SumLanes(total);
  const Vec inverse = Set1(1.0f / sum);
  MapUnary(p, p, n, [inverse](Vec v) { return v * inverse; });
  if (log_sum == nullptr) return;
  float lanes[kLanes];
  Store(lanes, Log(Set1(sum)) + shift);
  *log_sum = lanes[0];
}

void Softmax(const float* logits, float* probabilities, float* log_sums, int64_t rows,
             int64_t columns) {
  for (int64_t r = 0; r < rows; ++r) {
    SoftmaxRow(logits + r * columns, probabilities + r * columns,
               log_sums == nullptr ? nullptr : log_sums + r, columns);
  }
}

}  // namespace

extern const SimdKernels kSimdKernels;
const SimdKernels kSimdKernels = {
    Unary,
    Binary,
    Scale,
    Accumulate,
    MultiplyAccumulate,
    BiasActivation,
    ActivationGradient,
    Sum,
    SumSquares,
    SumSquaredDifference,
    MatrixVector,
    VectorMatrix,
    Outer,
    Softmax,
};

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE
