// The body of MathKernels for one instruction set: see math_kernels.h and vector.h.

#include "ml/kernels/cpu/simd/math_kernels.h"

#include "ml/kernels/cpu/simd/map_elements.h"
#include "ml/kernels/cpu/simd/vector.h"
#include "ml/kernels/cpu/simd/vector_math.h"

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {
namespace {

// ---- functions with parameters

// exp(x) - 1: near zero by the polynomial of Exp, which does not cancel.
inline Vec ExpMinusOne(Vec x) {
  Vec p = Set1(1.9875691500e-4f);
  p = Fma(p, x, Set1(1.3981999507e-3f));
  p = Fma(p, x, Set1(8.3334519073e-3f));
  p = Fma(p, x, Set1(4.1665795894e-2f));
  p = Fma(p, x, Set1(1.6666665459e-1f));
  p = Fma(p, x, Set1(5.0000001201e-1f));
  const Vec near_zero = Fma(p, x * x, x);
  return SelectGreater(Set1(0.34f), Abs(x), near_zero, Exp(x) - Set1(1.0f));
}

// x * P(x^2) / Q(x^2), the rational approximation of Eigen and XLA; exactly 1 beyond 3.92, so that
// 1 + erf vanishes there.
inline Vec Erf(Vec x) {
  const Vec z = Min(x * x, Set1(16.0f));
  Vec p = Set1(-2.72614225801306e-10f);
  p = Fma(p, z, Set1(2.77068142495902e-08f));
  p = Fma(p, z, Set1(-2.10102402082508e-06f));
  p = Fma(p, z, Set1(-5.69250639462346e-05f));
  p = Fma(p, z, Set1(-7.34990630326855e-04f));
  p = Fma(p, z, Set1(-2.95459980854025e-03f));
  p = Fma(p, z, Set1(-1.60960333262415e-02f));
  Vec q = Set1(-1.45660718464996e-05f);
  q = Fma(q, z, Set1(-2.13374055278905e-04f));
  q = Fma(q, z, Set1(-1.68282697438203e-03f));
  q = Fma(q, z, Set1(-7.37332916720468e-03f));
  q = Fma(q, z, Set1(-1.42647390514189e-02f));
  const Vec y = x * p / q;
  const Vec limit = Set1(3.92f);
  const Vec one = Set1(1.0f);
  return SelectGreater(x, limit, one, SelectGreater(Zero() - limit, x, Zero() - one, y));
}

constexpr float kRootHalf = 0.707106781186547524f;
constexpr float kRootTwoOverPi = 0.797884560802865356f;
constexpr float kInverseRootTwoPi = 0.398942280401432678f;
constexpr float kCubic = 0.044715f;

// The normal distribution up to x.
inline Vec NormalShare(Vec x) { return Set1(0.5f) * (Set1(1.0f) + Erf(x * Set1(kRootHalf))); }

inline Vec GeluSlope(Vec x) {
  const Vec density = Set1(kInverseRootTwoPi) * Exp(Set1(-0.5f) * x * x);
  return Fma(x, density, NormalShare(x));
}

// (1 + tanh(u)) / 2 = sigmoid(2u).
inline Vec TanhShare(Vec x) {
  const Vec u = x * Fma(Set1(kCubic) * x, x, Set1(1.0f));
  return Sigmoid(Set1(2 * kRootTwoOverPi) * u);
}

inline Vec GeluTanhSlope(Vec x) {
  const Vec share = TanhShare(x);
  const Vec inner = Set1(2 * kRootTwoOverPi) * Fma(Set1(3 * kCubic) * x, x, Set1(1.0f));
  return Fma(share * (Set1(1.0f) - share) * x, inner, share);
}

inline Vec SiluSlope(Vec x) {
  const Vec share = Sigmoid(x);
  return share * Fma(x, Set1(1.0f) - share, Set1(1.0f));
}

inline Vec Softplus(Vec x) { return Max(Zero(), x) + Log(Set1(1.0f) + Exp(Zero() - Abs(x))); }

void MathUnary(MathOp op, const float* x, float p, float q, float* y, int64_t n) {
  const Vec vp = Set1(p), vq = Set1(q);
  switch (op) {
    case MathOp::kClip:
      // Min and Max return their second operand when one is not a number: NaN stays.
      return MapUnary(x, y, n, [vp, vq](Vec v) { return Min(vq, Max(vp, v)); });
    case MathOp::kLeakyRelu:
      return MapUnary(x, y, n, [vp](Vec v) { return SelectGreater(Zero(), v, v * vp, v); });
    case MathOp::kElu:
      return MapUnary(x, y, n,
                      [vp](Vec v) { return SelectGreater(Zero(), v, vp * ExpMinusOne(v), v); });
    case MathOp::kErf:
      return MapUnary(x, y, n, [](Vec v) { return Erf(v); });
    case MathOp::kGelu:
      return MapUnary(x, y, n, [](Vec v) { return v * NormalShare(v); });
    case MathOp::kGeluTanh:
      return MapUnary(x, y, n, [](Vec v) { return v * TanhShare(v); });
    case MathOp::kSilu:
      return MapUnary(x, y, n, [](Vec v) { return v * Sigmoid(v); });
    case MathOp::kSoftplus:
      return MapUnary(x, y, n, [](Vec v) { return Softplus(v); });
  }
}

void MathGradient(MathOp op, const float* v, const float* dy, float p, float q, float* dx,
                  int64_t n) {
  const Vec vp = Set1(p), vq = Set1(q);
  const Operand at{v, false}, flow{dy, false};
  switch (op) {
    case MathOp::kClip:
      return MapBinary(at, flow, dx, n, [vp, vq](Vec y, Vec g) {
        return SelectGreater(y, vp, SelectGreater(vq, y, g, Zero()), Zero());
      });
    case MathOp::kLeakyRelu:
      return MapBinary(at, flow, dx, n,
                       [vp](Vec y, Vec g) { return SelectGreater(y, Zero(), g, vp * g); });
    case MathOp::kElu:
      return MapBinary(at, flow, dx, n,
                       [vp](Vec y, Vec g) { return SelectGreater(y, Zero(), g, (y + vp) * g); });
    case MathOp::kGelu:
      return MapBinary(at, flow, dx, n, [](Vec x, Vec g) { return g * GeluSlope(x); });
    case MathOp::kGeluTanh:
      return MapBinary(at, flow, dx, n, [](Vec x, Vec g) { return g * GeluTanhSlope(x); });
    case MathOp::kSilu:
      return MapBinary(at, flow, dx, n, [](Vec x, Vec g) { return g * SiluSlope(x); });
    case MathOp::kErf:
    case MathOp::kSoftplus:
      return;  // by other ops
  }
}

// ---- powers

// exp(b * log(m * 2^e)) of every lane as mantissa * 2^exponent, in double: the compiler's own
// vectors, hence no branch. log(m) = 2 atanh((m - 1) / (m + 1)), |.| < 0.172, to 1e-12; exp on
// +-log(2)/2, to 1e-10. Where the power is far out of range, the mantissa is any number.
inline void ExpOfLog(const float* m, const float* e, const float* b, float* mantissa,
                     float* exponent) {
  constexpr double kLog2 = 0.693147180559945309;
  constexpr double kMagic = 6755399441055744.0;  // adding it rounds to a whole number
  for (int i = 0; i < kLanes; ++i) {
    const double s = (static_cast<double>(m[i]) - 1.0) / (static_cast<double>(m[i]) + 1.0);
    const double z = s * s;
    const double series =
        1.0 + z * (1.0 / 3 +
                   z * (1.0 / 5 + z * (1.0 / 7 + z * (1.0 / 9 + z * (1.0 / 11 + z * (1.0 / 13))))));
    const double t =
        static_cast<double>(b[i]) * (2.0 * s * series + static_cast<double>(e[i]) * kLog2);
    const double whole = (t * (1.0 / kLog2) + kMagic) - kMagic;
    const double r = t - whole * kLog2;
    const double y =
        1.0 +
        r * (1.0 +
             r * (1.0 / 2 +
                  r * (1.0 / 6 +
                       r * (1.0 / 24 +
                            r * (1.0 / 120 + r * (1.0 / 720 + r * (1.0 / 5040 + r / 40320)))))));
    mantissa[i] = static_cast<float>(y);
    exponent[i] = static_cast<float>(whole);
  }
}

// |a|^b for a normal or subnormal number a > 0.
inline Vec PowerOfPositive(Vec a, Vec b) {
  const Vec smallest_normal = Set1(1.17549435e-38f);
  const Vec scaled = SelectGreater(smallest_normal, a, a * Set1(8388608.0f), a);
  Vec m, e;
  SplitExponent(scaled, &m, &e);
  e = e - SelectGreater(smallest_normal, a, Set1(23.0f), Zero());
  const Vec root_half = Set1(kRootHalf);
  e = e - SelectGreater(root_half, m, Set1(1.0f), Zero());
  m = m + SelectGreater(root_half, m, m, Zero());
  alignas(64) float ms[kLanes], es[kLanes], bs[kLanes], mantissas[kLanes], exponents[kLanes];
  Store(ms, m);
  Store(es, e);
  Store(bs, b);
  ExpOfLog(ms, es, bs, mantissas, exponents);
  const Vec mantissa = Max(Min(Load(mantissas), Set1(2.0f)), Set1(0.5f));
  const Vec exponent = Max(Min(Load(exponents), Set1(254.0f)), Set1(-252.0f));
  return ScaleByPowerOf2(mantissa, exponent);
}

// Returns what C's pow returns.
inline Vec Power(Vec a, Vec b) {
  const Vec zero = Zero(), one = Set1(1.0f), infinity = Set1(__builtin_inff());
  const Vec x = Abs(a);
  Vec y = PowerOfPositive(x, b);
  // 0 and infinity: 0 or infinity, as the sign of b says.
  const Vec up = SelectGreater(b, zero, infinity, zero),
            down = SelectGreater(b, zero, zero, infinity);
  y = SelectEqual(x, infinity, up, SelectEqual(x, zero, down, y));
  // Numbers from 2^23 on are whole, from 2^24 on even.
  const Vec is_large = Abs(b) - Set1(4194304.0f);
  const Vec is_whole =
      SelectGreater(is_large, zero, one, SelectEqual(RoundToEven(b), b, one, zero));
  const Vec half = b * Set1(0.5f);
  const Vec is_even =
      SelectGreater(is_large, zero, one, SelectEqual(RoundToEven(half), half, one, zero));
  const Vec of_negative = SelectGreater(is_whole, zero, SelectGreater(is_even, zero, y, zero - y),
                                        Set1(__builtin_nanf("")));
  y = SelectGreater(zero, a, of_negative, y);
  y = SelectNan(a, a, SelectNan(b, b, y));
  return SelectEqual(b, zero, one, SelectEqual(a, one, one, y));
}

// Exponents that need no logarithm. False if b is none of them.
bool PowerBySimpler(Operand a, float b, float* c, int64_t n) {
  const Vec one = Set1(1.0f);
  const Operand exponent{&b, true};
  const auto map = [&](auto f) {
    MapBinary(a, exponent, c, n, [f](Vec v, Vec) { return f(v); });
    return true;
  };
  if (b == 1.0f) return map([](Vec v) { return v; });
  if (b == 2.0f) return map([](Vec v) { return v * v; });
  if (b == 3.0f) return map([](Vec v) { return v * v * v; });
  if (b == 0.5f) return map([](Vec v) { return Sqrt(v); });
  if (b == -0.5f) return map([one](Vec v) { return one / Sqrt(v); });
  if (b == -1.0f) return map([one](Vec v) { return one / v; });
  return false;
}

void MapPower(Operand a, Operand b, float* c, int64_t n) {
  if (b.is_scalar && PowerBySimpler(a, *b.data, c, n)) return;
  MapBinary(a, b, c, n, [](Vec x, Vec y) { return Power(x, y); });
}

}  // namespace

extern const MathKernels kMathKernels;
const MathKernels kMathKernels = {
    MathUnary,
    MathGradient,
    MapPower,
};

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE
