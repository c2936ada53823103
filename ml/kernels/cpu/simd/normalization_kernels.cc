// The body of NormalizationKernels for one instruction set: see normalization_kernels.h and
// vector.h.

#include "ml/kernels/cpu/simd/normalization_kernels.h"

#include "ml/kernels/cpu/simd/vector.h"

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {
namespace {

constexpr int kBlock = 16;
constexpr int kVectors = kBlock / kLanes;

// 16 floats.
struct Group {
  Vec v[kVectors];
};

inline Group LoadGroup(const float* p) {
  Group group;
  for (int i = 0; i < kVectors; ++i) group.v[i] = Load(p + i * kLanes);
  return group;
}

inline void StoreGroup(float* p, const Group& group) {
  for (int i = 0; i < kVectors; ++i) Store(p + i * kLanes, group.v[i]);
}

// The first n < 16 floats, the others as in `fill`.
inline Group LoadTail(const float* p, int64_t n, const float* fill) {
  float lanes[kBlock];
  for (int i = 0; i < kBlock; ++i) lanes[i] = i < n ? p[i] : fill[i];
  return LoadGroup(lanes);
}

inline void StoreTail(float* p, const Group& group, int64_t n) {
  float lanes[kBlock];
  StoreGroup(lanes, group);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}

inline void AddTo(double* sums, const Group* parts, int count) {
  float lanes[kBlock];
  for (int k = 0; k < count; ++k) {
    StoreGroup(lanes, parts[k]);
    for (int i = 0; i < kBlock; ++i) sums[i] += static_cast<double>(lanes[i]);
  }
}

// Two sums over n elements: f(first sum, second sum, x, y) for each vector. Four chains, and
// doubles every 4096 elements.
template <typename Function>
inline void SumTwo(const float* x, const float* y, int64_t n, const float* fill_x,
                   const float* fill_y, double* first, double* second, Function f) {
  constexpr int kChains = 4;
  for (int64_t start = 0; start < n; start += 4096) {
    const int64_t end = start + 4096 < n ? start + 4096 : n;
    Group a[kChains], b[kChains];
    for (int k = 0; k < kChains; ++k) {
      for (int i = 0; i < kVectors; ++i) a[k].v[i] = b[k].v[i] = Zero();
    }
    int64_t at = start;
    for (; at + kChains * kBlock <= end; at += kChains * kBlock) {
      for (int k = 0; k < kChains; ++k) {
        const Group gx = LoadGroup(x + at + k * kBlock), gy = LoadGroup(y + at + k * kBlock);
        for (int i = 0; i < kVectors; ++i) f(&a[k].v[i], &b[k].v[i], gx.v[i], gy.v[i], i);
      }
    }
    for (; at < end; at += kBlock) {
      const bool whole = at + kBlock <= end;
      const Group gx = whole ? LoadGroup(x + at) : LoadTail(x + at, end - at, fill_x);
      const Group gy = whole ? LoadGroup(y + at) : LoadTail(y + at, end - at, fill_y);
      for (int i = 0; i < kVectors; ++i) f(&a[0].v[i], &b[0].v[i], gx.v[i], gy.v[i], i);
    }
    AddTo(first, a, kChains);
    AddTo(second, b, kChains);
  }
}

constexpr float kZeros[kBlock] = {};

void AddMoments(const float* x, int64_t n, const float* shift, double* sums, double* squares) {
  const Group s = LoadGroup(shift);
  SumTwo(x, x, n, shift, shift, sums, squares, [&s](Vec* sum, Vec* square, Vec v, Vec, int i) {
    const Vec d = v - s.v[i];
    *sum = *sum + d;
    *square = Fma(d, d, *square);
  });
}

// dy where the activation has a slope.
struct Slope {
  explicit Slope(const ClampedAffine& activation)
      : a(LoadGroup(activation.a)),
        c(LoadGroup(activation.c)),
        low(Set1(activation.low)),
        high(Set1(activation.high)) {}

  Vec operator()(Vec x, Vec dy, int i) const {
    const Vec z = Fma(a.v[i], x, c.v[i]);
    return SelectGreater(z, low, SelectGreater(high, z, dy, Zero()), Zero());
  }

  Group a, c;
  Vec low, high;
};

// The identity in the place of a slope.
struct NoSlope {
  Vec operator()(Vec, Vec dy, int) const { return dy; }
};

template <typename SlopeOf>
void SumGradients(const float* x, const float* dy, int64_t n, const float* mean, SlopeOf slope,
                  double* sums, double* products) {
  const Group m = LoadGroup(mean);
  SumTwo(x, dy, n, mean, kZeros, sums, products, [&](Vec* sum, Vec* product, Vec v, Vec g, int i) {
    const Vec dz = slope(v, g, i);
    *sum = *sum + dz;
    *product = Fma(dz, v - m.v[i], *product);
  });
}

void AddGradientSums(const float* x, const float* dy, int64_t n, const float* mean,
                     const ClampedAffine* activation, double* sums, double* products) {
  if (activation == nullptr) return SumGradients(x, dy, n, mean, NoSlope(), sums, products);
  SumGradients(x, dy, n, mean, Slope(*activation), sums, products);
}

// y = f(x, second) for each vector; `second` may be x.
template <typename Function>
void MapTwo(const float* x, const float* second, int64_t n, float* y, Function f) {
  const auto map = [&f](Group group, const Group& other) {
    for (int i = 0; i < kVectors; ++i) group.v[i] = f(group.v[i], other.v[i], i);
    return group;
  };
  int64_t at = 0;
  for (; at + kBlock <= n; at += kBlock) {
    StoreGroup(y + at, map(LoadGroup(x + at), LoadGroup(second + at)));
  }
  if (at == n) return;
  const Group tail = map(LoadTail(x + at, n - at, kZeros), LoadTail(second + at, n - at, kZeros));
  StoreTail(y + at, tail, n - at);
}

void Affine(const float* x, const float* residual, int64_t n, const ClampedAffine& affine,
            float* y) {
  const Group a = LoadGroup(affine.a), c = LoadGroup(affine.c);
  const Vec low = Set1(affine.low), high = Set1(affine.high);
  // The bound first: NaN stays.
  const auto clamp = [&](Vec v) { return Min(high, Max(low, v)); };
  if (residual == nullptr) {
    return MapTwo(x, x, n, y, [&](Vec v, Vec, int i) { return clamp(Fma(a.v[i], v, c.v[i])); });
  }
  MapTwo(x, residual, n, y, [&](Vec v, Vec r, int i) { return clamp(Fma(a.v[i], v, c.v[i]) + r); });
}

void AffineOfTwo(const float* dy, const float* x, int64_t n, const float* a, const float* b,
                 const float* c, const ClampedAffine* activation, float* dx) {
  const Group ga = LoadGroup(a), gb = LoadGroup(b), gc = LoadGroup(c);
  const auto combine = [&](Vec dz, Vec v, int i) {
    return Fma(ga.v[i], dz, Fma(gb.v[i], v, gc.v[i]));
  };
  if (activation == nullptr) return MapTwo(dy, x, n, dx, combine);
  const Slope slope(*activation);
  MapTwo(dy, x, n, dx, [&](Vec g, Vec v, int i) { return combine(slope(v, g, i), v, i); });
}

void NormalizeRow(const float* x, int64_t n, float mean, float inv_std, const float* scale,
                  const float* offset, float* y) {
  const Vec m = Set1(mean), inverse = Set1(inv_std);
  const auto normal = [&](Vec v, Vec s, Vec o) { return Fma((v - m) * inverse, s, o); };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    Store(y + i, normal(Load(x + i), Load(scale + i), Load(offset + i)));
  }
  if (i == n) return;
  const int64_t rest = n - i;
  StorePart(y + i,
            normal(LoadPart(x + i, rest), LoadPart(scale + i, rest), LoadPart(offset + i, rest)),
            rest);
}

void NormalizeRowGradient(const float* x, const float* dy, int64_t n, float mean, float inv_std,
                          const float* scale, float* dscale, float* doffset, float* dx) {
  const Vec m = Set1(mean), inverse = Set1(inv_std);
  Vec sum = Zero(), product = Zero();
  const auto add = [&](Vec v, Vec g, Vec s) {
    const Vec gs = g * s;
    sum = sum + gs;
    product = Fma(gs, (v - m) * inverse, product);
  };
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    const Vec v = Load(x + i), g = Load(dy + i);
    add(v, g, Load(scale + i));
    Store(dscale + i, Fma(g, (v - m) * inverse, Load(dscale + i)));
    Store(doffset + i, g + Load(doffset + i));
  }
  if (const int64_t rest = n - i; rest > 0) {
    const Vec v = LoadPart(x + i, rest, mean), g = LoadPart(dy + i, rest);
    add(v, g, LoadPart(scale + i, rest));
    StorePart(dscale + i, Fma(g, (v - m) * inverse, LoadPart(dscale + i, rest)), rest);
    StorePart(doffset + i, g + LoadPart(doffset + i, rest), rest);
  }
  if (dx == nullptr) return;
  const Vec a = Set1(SumLanes(sum) / static_cast<float>(n));
  const Vec b = Set1(SumLanes(product) / static_cast<float>(n));
  const auto gradient = [&](Vec v, Vec g, Vec s) {
    return inverse * (g * s - Fma((v - m) * inverse, b, a));
  };
  for (i = 0; i + kLanes <= n; i += kLanes) {
    Store(dx + i, gradient(Load(x + i), Load(dy + i), Load(scale + i)));
  }
  if (const int64_t rest = n - i; rest > 0) {
    const Vec v = LoadPart(x + i, rest), g = LoadPart(dy + i, rest);
    StorePart(dx + i, gradient(v, g, LoadPart(scale + i, rest)), rest);
  }
}

}  // namespace

const NormalizationKernels kNormalizationKernels = {
    AddMoments, AddGradientSums, Affine, AffineOfTwo, NormalizeRow, NormalizeRowGradient};

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE
