// One SIMD vector of floats, as wide as the instruction set this file is compiled for. Included
// only by the files that are compiled once per instruction set: the BUILD file defines
// SHOAL_SIMD_NAMESPACE for them, so that no inline function of one instruction set can be linked
// into another. For the same reason nothing here uses the standard library.
#ifndef SHOAL_ML_KERNELS_CPU_SIMD_VECTOR_H_
#define SHOAL_ML_KERNELS_CPU_SIMD_VECTOR_H_

#ifndef SHOAL_SIMD_NAMESPACE
#error "SHOAL_SIMD_NAMESPACE must name the instruction set: see BUILD"
#endif

#include <cstdint>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {

#if defined(__AVX512F__)

inline constexpr int kLanes = 16;
using Vec = __m512;

inline Vec Load(const float* p) { return _mm512_loadu_ps(p); }
inline void Store(float* p, Vec v) { _mm512_storeu_ps(p, v); }
inline void StoreStreaming(float* p, Vec v) { _mm512_stream_ps(p, v); }
inline Vec Set1(float x) { return _mm512_set1_ps(x); }
inline Vec Zero() { return _mm512_setzero_ps(); }
inline Vec Fma(Vec a, Vec b, Vec c) { return _mm512_fmadd_ps(a, b, c); }
inline Vec Max(Vec a, Vec b) { return _mm512_max_ps(a, b); }
inline Vec Min(Vec a, Vec b) { return _mm512_min_ps(a, b); }
inline Vec Sqrt(Vec a) { return _mm512_sqrt_ps(a); }
inline Vec Abs(Vec a) { return _mm512_abs_ps(a); }
inline Vec RoundToEven(Vec a) { return _mm512_roundscale_ps(a, 8); }
// Returns x where a > b, else y.
inline Vec SelectGreater(Vec a, Vec b, Vec x, Vec y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_GT_OQ), y, x);
}
// Returns x where v is NaN, else y.
inline Vec SelectNan(Vec v, Vec x, Vec y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(v, v, _CMP_UNORD_Q), y, x);
}
// Returns x where a == b, else y.
inline Vec SelectEqual(Vec a, Vec b, Vec x, Vec y) {
  return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_EQ_OQ), y, x);
}
// Stores the lanes as bytes. They must be integers in [0, 255].
inline void StoreBytes(uint8_t* p, Vec v) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(v)));
}
inline Vec LoadBytes(const uint8_t* p) {
  return _mm512_cvtepi32_ps(
      _mm512_cvtepu8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
// Returns v * 2^n for integers n in [-252, 254].
inline Vec ScaleByPowerOf2(Vec v, Vec n) { return _mm512_scalef_ps(v, n); }
// Splits v into mantissa * 2^exponent, with the mantissa in [0.5, 1). v must be positive and
// normal.
inline void SplitExponent(Vec v, Vec* mantissa, Vec* exponent) {
  const __m512i bits = _mm512_castps_si512(v);
  *exponent =
      _mm512_cvtepi32_ps(_mm512_sub_epi32(_mm512_srli_epi32(bits, 23), _mm512_set1_epi32(126)));
  *mantissa = _mm512_castsi512_ps(_mm512_or_si512(
      _mm512_and_si512(bits, _mm512_set1_epi32(0x007fffff)), _mm512_set1_epi32(0x3f000000)));
}

#elif defined(__AVX2__)

inline constexpr int kLanes = 8;
using Vec = __m256;

inline Vec Load(const float* p) { return _mm256_loadu_ps(p); }
inline void Store(float* p, Vec v) { _mm256_storeu_ps(p, v); }
inline void StoreStreaming(float* p, Vec v) { _mm256_stream_ps(p, v); }
inline Vec Set1(float x) { return _mm256_set1_ps(x); }
inline Vec Zero() { return _mm256_setzero_ps(); }
inline Vec Fma(Vec a, Vec b, Vec c) { return _mm256_fmadd_ps(a, b, c); }
inline Vec Max(Vec a, Vec b) { return _mm256_max_ps(a, b); }
inline Vec Min(Vec a, Vec b) { return _mm256_min_ps(a, b); }
inline Vec Sqrt(Vec a) { return _mm256_sqrt_ps(a); }
inline Vec Abs(Vec a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
inline Vec RoundToEven(Vec a) { return _mm256_round_ps(a, 8); }
inline Vec SelectGreater(Vec a, Vec b, Vec x, Vec y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_GT_OQ));
}
inline Vec SelectNan(Vec v, Vec x, Vec y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(v, v, _CMP_UNORD_Q));
}
inline Vec SelectEqual(Vec a, Vec b, Vec x, Vec y) {
  return _mm256_blendv_ps(y, x, _mm256_cmp_ps(a, b, _CMP_EQ_OQ));
}
inline void StoreBytes(uint8_t* p, Vec v) {
  alignas(32) int32_t lanes[kLanes];
  _mm256_store_si256(reinterpret_cast<__m256i*>(lanes), _mm256_cvtps_epi32(v));
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<uint8_t>(lanes[i]);
}
inline Vec LoadBytes(const uint8_t* p) {
  return _mm256_cvtepi32_ps(
      _mm256_cvtepu8_epi32(_mm_loadl_epi64(reinterpret_cast<const __m128i*>(p))));
}
inline Vec PowerOf2(__m256i n) {
  return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(n, _mm256_set1_epi32(127)), 23));
}
inline Vec ScaleByPowerOf2(Vec v, Vec n) {
  const __m256i all = _mm256_cvtps_epi32(n);
  const __m256i half = _mm256_srai_epi32(all, 1);
  return _mm256_mul_ps(_mm256_mul_ps(v, PowerOf2(half)), PowerOf2(_mm256_sub_epi32(all, half)));
}
inline void SplitExponent(Vec v, Vec* mantissa, Vec* exponent) {
  const __m256i bits = _mm256_castps_si256(v);
  *exponent =
      _mm256_cvtepi32_ps(_mm256_sub_epi32(_mm256_srli_epi32(bits, 23), _mm256_set1_epi32(126)));
  *mantissa = _mm256_castsi256_ps(_mm256_or_si256(
      _mm256_and_si256(bits, _mm256_set1_epi32(0x007fffff)), _mm256_set1_epi32(0x3f000000)));
}

#else  // Any machine: the compiler's own vectors of four.

inline constexpr int kLanes = 4;
typedef float Vec __attribute__((vector_size(16)));
typedef int32_t IntVec __attribute__((vector_size(16)));

inline Vec Load(const float* p) {
  Vec v;
  __builtin_memcpy(&v, p, sizeof(v));
  return v;
}
inline void Store(float* p, Vec v) { __builtin_memcpy(p, &v, sizeof(v)); }
inline void StoreStreaming(float* p, Vec v) { Store(p, v); }
inline Vec Set1(float x) { return Vec{x, x, x, x}; }
inline Vec Zero() { return Vec{0, 0, 0, 0}; }
inline Vec Fma(Vec a, Vec b, Vec c) { return a * b + c; }
inline Vec Blend(IntVec mask, Vec x, Vec y) {
  return reinterpret_cast<Vec>((mask & reinterpret_cast<IntVec>(x)) |
                               (~mask & reinterpret_cast<IntVec>(y)));
}
// Like the x86 instructions, returns the second operand if either one is NaN.
inline Vec Max(Vec a, Vec b) { return Blend(reinterpret_cast<IntVec>(a > b), a, b); }
inline Vec Min(Vec a, Vec b) { return Blend(reinterpret_cast<IntVec>(a < b), a, b); }
inline Vec Sqrt(Vec a) {
  return Vec{__builtin_sqrtf(a[0]), __builtin_sqrtf(a[1]), __builtin_sqrtf(a[2]),
             __builtin_sqrtf(a[3])};
}
inline Vec Abs(Vec a) {
  const int32_t m = 0x7fffffff;
  return reinterpret_cast<Vec>(reinterpret_cast<IntVec>(a) & IntVec{m, m, m, m});
}
// Rounds to the nearest integer, ties to even; requires |a| < 2^22.
inline Vec RoundToEven(Vec a) {
  const Vec magic = Set1(12582912.0f);
  return (a + magic) - magic;
}
inline Vec SelectGreater(Vec a, Vec b, Vec x, Vec y) {
  return Blend(reinterpret_cast<IntVec>(a > b), x, y);
}
inline Vec SelectNan(Vec v, Vec x, Vec y) {
  const auto is_nan = v != v;  // NOLINT(misc-redundant-expression): only NaN is not itself.
  return Blend(reinterpret_cast<IntVec>(is_nan), x, y);
}
inline Vec SelectEqual(Vec a, Vec b, Vec x, Vec y) {
  return Blend(reinterpret_cast<IntVec>(a == b), x, y);
}
inline void StoreBytes(uint8_t* p, Vec v) {
  for (int i = 0; i < kLanes; ++i) p[i] = static_cast<uint8_t>(v[i]);
}
inline Vec LoadBytes(const uint8_t* p) {
  return Vec{static_cast<float>(p[0]), static_cast<float>(p[1]), static_cast<float>(p[2]),
             static_cast<float>(p[3])};
}
inline Vec PowerOf2(IntVec n) { return reinterpret_cast<Vec>((n + 127) << 23); }
inline Vec ScaleByPowerOf2(Vec v, Vec n) {
  const IntVec all = __builtin_convertvector(n, IntVec);
  const IntVec half = all >> 1;
  return v * PowerOf2(half) * PowerOf2(all - half);
}
inline void SplitExponent(Vec v, Vec* mantissa, Vec* exponent) {
  const IntVec bits = reinterpret_cast<IntVec>(v);
  *exponent = __builtin_convertvector((bits >> 23) - 126, Vec);
  *mantissa = reinterpret_cast<Vec>((bits & 0x007fffff) | 0x3f000000);
}

#endif

// Transpose: lane j of rows[i] and lane i of rows[j] change places.
// LoadPart: loads n < kLanes floats; the other lanes are `fill`. StorePart: stores the first n.
#if defined(__AVX512F__)

inline __mmask16 FirstLanes(int64_t n) { return static_cast<__mmask16>((1u << n) - 1); }
inline Vec LoadPart(const float* p, int64_t n, float fill = 0.0f) {
  return _mm512_mask_loadu_ps(Set1(fill), FirstLanes(n), p);
}
inline void StorePart(float* p, Vec v, int64_t n) { _mm512_mask_storeu_ps(p, FirstLanes(n), v); }

// Transposes the blocks of four by four, then exchanges the blocks.
inline void Transpose(Vec (&rows)[kLanes]) {
#pragma GCC unroll 4
  for (int i = 0; i < kLanes; i += 4) {
    const Vec a = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
    const Vec b = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    const Vec c = _mm512_unpacklo_ps(rows[i + 2], rows[i + 3]);
    const Vec d = _mm512_unpackhi_ps(rows[i + 2], rows[i + 3]);
    rows[i] = _mm512_shuffle_ps(a, c, 0x44);
    rows[i + 1] = _mm512_shuffle_ps(a, c, 0xee);
    rows[i + 2] = _mm512_shuffle_ps(b, d, 0x44);
    rows[i + 3] = _mm512_shuffle_ps(b, d, 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Vec a = _mm512_shuffle_f32x4(rows[i], rows[i + 4], 0x44);
    const Vec b = _mm512_shuffle_f32x4(rows[i], rows[i + 4], 0xee);
    const Vec c = _mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0x44);
    const Vec d = _mm512_shuffle_f32x4(rows[i + 8], rows[i + 12], 0xee);
    rows[i] = _mm512_shuffle_f32x4(a, c, 0x88);
    rows[i + 4] = _mm512_shuffle_f32x4(a, c, 0xdd);
    rows[i + 8] = _mm512_shuffle_f32x4(b, d, 0x88);
    rows[i + 12] = _mm512_shuffle_f32x4(b, d, 0xdd);
  }
}

#elif defined(__AVX2__)

inline __m256i FirstLanes(int64_t n) {
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)),
                            _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
inline Vec LoadPart(const float* p, int64_t n, float fill = 0.0f) {
  const __m256i mask = FirstLanes(n);
  return _mm256_blendv_ps(Set1(fill), _mm256_maskload_ps(p, mask), _mm256_castsi256_ps(mask));
}
inline void StorePart(float* p, Vec v, int64_t n) { _mm256_maskstore_ps(p, FirstLanes(n), v); }

inline void Transpose(Vec (&rows)[kLanes]) {
#pragma GCC unroll 2
  for (int i = 0; i < kLanes; i += 4) {
    const Vec a = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
    const Vec b = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    const Vec c = _mm256_unpacklo_ps(rows[i + 2], rows[i + 3]);
    const Vec d = _mm256_unpackhi_ps(rows[i + 2], rows[i + 3]);
    rows[i] = _mm256_shuffle_ps(a, c, 0x44);
    rows[i + 1] = _mm256_shuffle_ps(a, c, 0xee);
    rows[i + 2] = _mm256_shuffle_ps(b, d, 0x44);
    rows[i + 3] = _mm256_shuffle_ps(b, d, 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; ++i) {
    const Vec a = rows[i], b = rows[i + 4];
    rows[i] = _mm256_permute2f128_ps(a, b, 0x20);
    rows[i + 4] = _mm256_permute2f128_ps(a, b, 0x31);
  }
}

#else

inline Vec LoadPart(const float* p, int64_t n, float fill = 0.0f) {
  float lanes[kLanes];
  for (int i = 0; i < kLanes; ++i) lanes[i] = i < n ? p[i] : fill;
  return Load(lanes);
}
inline void StorePart(float* p, Vec v, int64_t n) {
  float lanes[kLanes];
  Store(lanes, v);
  for (int64_t i = 0; i < n; ++i) p[i] = lanes[i];
}
inline void Transpose(Vec (&rows)[kLanes]) {
  for (int i = 0; i < kLanes; ++i) {
    for (int j = 0; j < i; ++j) {
      const float lane = rows[i][j];
      rows[i][j] = rows[j][i];
      rows[j][i] = lane;
    }
  }
}

#endif

// Returns the sum of the lanes, added in pairs at the distances kLanes/2, kLanes/4, ..., 1.
inline float SumLanes(Vec v) {
  float lanes[kLanes];
  Store(lanes, v);
  for (int width = kLanes / 2; width > 0; width /= 2) {
    for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
  }
  return lanes[0];
}
inline float MaxLane(Vec v) {
  float lanes[kLanes];
  Store(lanes, v);
  float best = lanes[0];
  for (int i = 1; i < kLanes; ++i) best = lanes[i] > best ? lanes[i] : best;
  return best;
}

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE

#endif  // SHOAL_ML_KERNELS_CPU_SIMD_VECTOR_H_
