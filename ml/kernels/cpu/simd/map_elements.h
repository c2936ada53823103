// Loops that apply a function of vectors to arrays. Only for files that are compiled once per
// instruction set; see vector.h.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_MAP_ELEMENTS_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_MAP_ELEMENTS_H_

#include "ml/kernels/cpu/simd/simd_kernels.h"
#include "ml/kernels/cpu/simd/vector.h"

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {

// Computes y[i] = f(x[i]) for i < n; x may be y. In the last vector, the lanes beyond the end are
// 1.
template <typename Function>
inline void MapUnary(const float* x, float* y, int64_t n, Function f) {
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) Store(y + i, f(Load(x + i)));
  if (i < n) StorePart(y + i, f(LoadPart(x + i, n - i, 1.0f)), n - i);
}

// Computes c[i] = f(a[i], b[i]) for i < n; c may be a or b.
template <typename Function>
inline void MapBinary(Operand a, Operand b, float* c, int64_t n, Function f) {
  int64_t i = 0;
  if (a.is_scalar && b.is_scalar) {
    const Vec v = f(Set1(*a.data), Set1(*b.data));
    for (; i + kLanes <= n; i += kLanes) Store(c + i, v);
    if (i < n) StorePart(c + i, v, n - i);
    return;
  }
  if (a.is_scalar) {
    const Vec va = Set1(*a.data);
    for (; i + kLanes <= n; i += kLanes) Store(c + i, f(va, Load(b.data + i)));
    if (i < n) StorePart(c + i, f(va, LoadPart(b.data + i, n - i, 1.0f)), n - i);
    return;
  }
  if (b.is_scalar) {
    const Vec vb = Set1(*b.data);
    for (; i + kLanes <= n; i += kLanes) Store(c + i, f(Load(a.data + i), vb));
    if (i < n) StorePart(c + i, f(LoadPart(a.data + i, n - i, 1.0f), vb), n - i);
    return;
  }
  for (; i + kLanes <= n; i += kLanes) Store(c + i, f(Load(a.data + i), Load(b.data + i)));
  if (i < n) {
    StorePart(c + i, f(LoadPart(a.data + i, n - i, 1.0f), LoadPart(b.data + i, n - i, 1.0f)),
              n - i);
  }
}

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_MAP_ELEMENTS_H_
