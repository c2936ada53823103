// exp, log, tanh and the logistic function on vectors, after Cephes (S. Moshier, single precision);
// errors are below 3 ulp. Only for files that are compiled once per instruction set; see vector.h.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_VECTOR_MATH_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_VECTOR_MATH_H_

#include "ml/kernels/cpu/simd/vector.h"

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {

// Returns infinity above 88.7 and 0 below -104; NaN stays NaN.
inline Vec Exp(Vec x) {
  const Vec clamped = Max(Min(x, Set1(89.0f)), Set1(-105.0f));
  const Vec n = RoundToEven(clamped * Set1(1.44269504088896341f));
  Vec r = Fma(n, Set1(-0.693359375f), clamped);
  r = Fma(n, Set1(2.12194440e-4f), r);
  Vec p = Set1(1.9875691500e-4f);
  p = Fma(p, r, Set1(1.3981999507e-3f));
  p = Fma(p, r, Set1(8.3334519073e-3f));
  p = Fma(p, r, Set1(4.1665795894e-2f));
  p = Fma(p, r, Set1(1.6666665459e-1f));
  p = Fma(p, r, Set1(5.0000001201e-1f));
  p = Fma(p, r * r, r + Set1(1.0f));
  return SelectNan(x, x, ScaleByPowerOf2(p, n));
}

// Returns -infinity for 0 and NaN for negative numbers.
inline Vec Log(Vec x) {
  const Vec zero = Zero();
  const Vec smallest_normal = Set1(1.17549435e-38f);
  // Subnormal numbers are scaled by 2^23 first.
  const Vec scaled = SelectGreater(smallest_normal, x, x * Set1(8388608.0f), x);
  Vec m, e;
  SplitExponent(scaled, &m, &e);
  e = e - SelectGreater(smallest_normal, x, Set1(23.0f), zero);
  const Vec root_half = Set1(0.707106781186547524f);
  e = e - SelectGreater(root_half, m, Set1(1.0f), zero);
  m = m + SelectGreater(root_half, m, m, zero) - Set1(1.0f);
  const Vec z = m * m;
  Vec p = Set1(7.0376836292e-2f);
  p = Fma(p, m, Set1(-1.1514610310e-1f));
  p = Fma(p, m, Set1(1.1676998740e-1f));
  p = Fma(p, m, Set1(-1.2420140846e-1f));
  p = Fma(p, m, Set1(1.4249322787e-1f));
  p = Fma(p, m, Set1(-1.6668057665e-1f));
  p = Fma(p, m, Set1(2.0000714765e-1f));
  p = Fma(p, m, Set1(-2.4999993993e-1f));
  p = Fma(p, m, Set1(3.3333331174e-1f));
  Vec y = p * m * z;
  y = Fma(e, Set1(-2.12194440e-4f), y);
  y = Fma(z, Set1(-0.5f), y);
  y = Fma(e, Set1(0.693359375f), m + y);
  const Vec infinity = Set1(__builtin_inff());
  y = SelectGreater(infinity, x, y, x);  // +infinity and NaN.
  y = SelectGreater(x, zero, y, SelectGreater(zero, x, Set1(__builtin_nanf("")), zero - infinity));
  return SelectNan(x, x, y);
}

inline Vec Sigmoid(Vec x) { return Set1(1.0f) / (Set1(1.0f) + Exp(Zero() - x)); }

inline Vec Tanh(Vec x) {
  const Vec a = Abs(x);
  const Vec z = x * x;
  Vec p = Set1(-5.70498872745e-3f);
  p = Fma(p, z, Set1(2.06390887954e-2f));
  p = Fma(p, z, Set1(-5.37397155531e-2f));
  p = Fma(p, z, Set1(1.33314422036e-1f));
  p = Fma(p, z, Set1(-3.33332819422e-1f));
  const Vec small = Fma(p * z, x, x);
  const Vec large = Set1(1.0f) - Set1(2.0f) / (Exp(a + a) + Set1(1.0f));
  const Vec signed_large = SelectGreater(Zero(), x, Zero() - large, large);
  return SelectNan(x, x, SelectGreater(a, Set1(0.625f), signed_large, small));
}

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_VECTOR_MATH_H_
