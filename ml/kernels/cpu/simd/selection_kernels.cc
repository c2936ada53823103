// The body of SelectionKernels for one instruction set: see selection_kernels.h. Most loops are
// plain: the compiler makes vectors of them.

#include "ml/kernels/cpu/simd/selection_kernels.h"

#include "ml/kernels/cpu/simd/vector.h"

namespace shoal::cpu::SHOAL_SIMD_NAMESPACE {
namespace {

// c[i] = f(a[i], b[i]).
template <typename T, typename Result, typename Function>
inline void MapPairs(AnyOperand a, AnyOperand b, Result* c, int64_t n, Function f) {
  const T* x = static_cast<const T*>(a.data);
  const T* y = static_cast<const T*>(b.data);
  if (a.is_scalar && b.is_scalar) {
    const Result value = f(*x, *y);
    for (int64_t i = 0; i < n; ++i) c[i] = value;
  } else if (a.is_scalar) {
    const T fixed = *x;
    for (int64_t i = 0; i < n; ++i) c[i] = f(fixed, y[i]);
  } else if (b.is_scalar) {
    const T fixed = *y;
    for (int64_t i = 0; i < n; ++i) c[i] = f(x[i], fixed);
  } else {
    for (int64_t i = 0; i < n; ++i) c[i] = f(x[i], y[i]);
  }
}

template <typename T>
void CompareElements(Comparison op, AnyOperand a, AnyOperand b, uint8_t* c, int64_t n) {
  switch (op) {
    case Comparison::kEqual:
      return MapPairs<T>(a, b, c, n, [](T x, T y) { return static_cast<uint8_t>(x == y); });
    case Comparison::kLess:
      return MapPairs<T>(a, b, c, n, [](T x, T y) { return static_cast<uint8_t>(x < y); });
    case Comparison::kGreater:
      return MapPairs<T>(a, b, c, n, [](T x, T y) { return static_cast<uint8_t>(x > y); });
  }
}

void Compare(Comparison op, DataType dtype, AnyOperand a, AnyOperand b, uint8_t* c, int64_t n) {
  switch (dtype) {
    case DataType::kFloat32:
      return CompareElements<float>(op, a, b, c, n);
    case DataType::kFloat64:
      return CompareElements<double>(op, a, b, c, n);
    case DataType::kInt32:
      return CompareElements<int32_t>(op, a, b, c, n);
    case DataType::kInt64:
      return CompareElements<int64_t>(op, a, b, c, n);
    case DataType::kUint8:
    case DataType::kBool:
      return CompareElements<uint8_t>(op, a, b, c, n);
    case DataType::kBfloat16:
      break;
  }
}

// Both values are read before one is chosen, so that no branch stands between.
template <typename T>
inline void SelectElements(AnyOperand condition, AnyOperand x, AnyOperand y, T* z, int64_t n) {
  const uint8_t* c = static_cast<const uint8_t*>(condition.data);
  if (condition.is_scalar) {
    const bool is_first = *c != 0;
    MapPairs<T>(x, y, z, n, [is_first](T a, T b) { return is_first ? a : b; });
    return;
  }
  const T* a = static_cast<const T*>(x.data);
  const T* b = static_cast<const T*>(y.data);
  const auto map = [&](auto first, auto second) {
    for (int64_t i = 0; i < n; ++i) {
      const T p = first(i), q = second(i);
      z[i] = c[i] != 0 ? p : q;
    }
  };
  const auto of_a = [a](int64_t i) { return a[i]; };
  const auto of_b = [b](int64_t i) { return b[i]; };
  const T one_a = x.is_scalar ? *a : T{};
  const T one_b = y.is_scalar ? *b : T{};
  const auto fixed_a = [one_a](int64_t) { return one_a; };
  const auto fixed_b = [one_b](int64_t) { return one_b; };
  if (x.is_scalar && y.is_scalar) return map(fixed_a, fixed_b);
  if (x.is_scalar) return map(fixed_a, of_b);
  if (y.is_scalar) return map(of_a, fixed_b);
  map(of_a, of_b);
}

void Select(AnyOperand condition, AnyOperand x, AnyOperand y, void* z, size_t element_bytes,
            int64_t n) {
  switch (element_bytes) {
    case 1:
      return SelectElements(condition, x, y, static_cast<uint8_t*>(z), n);
    case 4:
      return SelectElements(condition, x, y, static_cast<uint32_t*>(z), n);
    case 8:
      return SelectElements(condition, x, y, static_cast<uint64_t*>(z), n);
    default:
      return;
  }
}

template <typename From, typename To>
void ConvertElements(const void* from, void* to, int64_t n) {
  const From* x = static_cast<const From*>(from);
  To* y = static_cast<To*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = static_cast<To>(x[i]);
}

template <typename From>
void RoundElements(const void* from, void* to, int64_t n) {
  const From* x = static_cast<const From*>(from);
  Bfloat16* y = static_cast<Bfloat16*>(to);
  for (int64_t i = 0; i < n; ++i) y[i] = Bfloat16(static_cast<float>(x[i]));
}

template <typename From>
void ConvertFrom(DataType to, const void* x, void* y, int64_t n) {
  switch (to) {
    case DataType::kFloat32:
      return ConvertElements<From, float>(x, y, n);
    case DataType::kFloat64:
      return ConvertElements<From, double>(x, y, n);
    case DataType::kInt32:
      return ConvertElements<From, int32_t>(x, y, n);
    case DataType::kInt64:
      return ConvertElements<From, int64_t>(x, y, n);
    case DataType::kUint8:
      return ConvertElements<From, uint8_t>(x, y, n);
    case DataType::kBool:
      return ConvertElements<From, bool>(x, y, n);
    case DataType::kBfloat16:
      return RoundElements<From>(x, y, n);
  }
}

void Convert(DataType from, DataType to, const void* x, void* y, int64_t n) {
  switch (from) {
    case DataType::kFloat32:
      return ConvertFrom<float>(to, x, y, n);
    case DataType::kFloat64:
      return ConvertFrom<double>(to, x, y, n);
    case DataType::kInt32:
      return ConvertFrom<int32_t>(to, x, y, n);
    case DataType::kInt64:
      return ConvertFrom<int64_t>(to, x, y, n);
    case DataType::kUint8:
      return ConvertFrom<uint8_t>(to, x, y, n);
    case DataType::kBool:
      return ConvertFrom<bool>(to, x, y, n);
    case DataType::kBfloat16:
      return ConvertFrom<Bfloat16>(to, x, y, n);
  }
}

// ---- dropout

constexpr int kCounters = 16;

// Whole numbers of 32 bits, as many as fit into a vector.
#if defined(__AVX512F__)
constexpr int kWords = 16;
using Words = __m512i;
inline Words LoadWords(const uint32_t* p) { return _mm512_loadu_si512(p); }
inline void StoreWords(uint32_t* p, Words v) { _mm512_storeu_si512(p, v); }
inline Words SetWords(uint32_t x) { return _mm512_set1_epi32(static_cast<int>(x)); }
inline Words Xor(Words a, Words b) { return _mm512_xor_si512(a, b); }
// The upper and lower halves of a * b.
inline void Multiply(Words a, Words b, Words* high, Words* low) {
  const Words even = _mm512_mul_epu32(a, b);
  const Words odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), b);
  *high = _mm512_mask_blend_epi32(0xaaaa, _mm512_srli_epi64(even, 32), odd);
  *low = _mm512_mask_blend_epi32(0xaaaa, even, _mm512_slli_epi64(odd, 32));
}
#elif defined(__AVX2__)
constexpr int kWords = 8;
using Words = __m256i;
inline Words LoadWords(const uint32_t* p) {
  return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
}
inline void StoreWords(uint32_t* p, Words v) {
  _mm256_storeu_si256(reinterpret_cast<__m256i*>(p), v);
}
inline Words SetWords(uint32_t x) { return _mm256_set1_epi32(static_cast<int>(x)); }
inline Words Xor(Words a, Words b) { return _mm256_xor_si256(a, b); }
inline void Multiply(Words a, Words b, Words* high, Words* low) {
  const Words even = _mm256_mul_epu32(a, b);
  const Words odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), b);
  *high = _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
  *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
}
#else
constexpr int kWords = 1;
using Words = uint32_t;
inline Words LoadWords(const uint32_t* p) { return *p; }
inline void StoreWords(uint32_t* p, Words v) { *p = v; }
inline Words SetWords(uint32_t x) { return x; }
inline Words Xor(Words a, Words b) { return a ^ b; }
inline void Multiply(Words a, Words b, Words* high, Words* low) {
  const uint64_t product = uint64_t{a} * b;
  *high = static_cast<uint32_t>(product >> 32);
  *low = static_cast<uint32_t>(product);
}
#endif

// Words k of Philox4x32-10 for 16 counters that follow each other, as words[k][counter]: see
// base/random.h. 16 divides `low`, so that the counters have one upper half.
inline void DrawWords(uint64_t key, uint64_t high, uint64_t low, uint32_t words[4][kCounters]) {
  uint32_t counters[kCounters];
  for (int i = 0; i < kCounters; ++i) {
    counters[i] = static_cast<uint32_t>(low) + static_cast<uint32_t>(i);
  }
  for (int i = 0; i < kCounters; i += kWords) {
    uint32_t k0 = static_cast<uint32_t>(key), k1 = static_cast<uint32_t>(key >> 32);
    Words c0 = LoadWords(counters + i), c1 = SetWords(static_cast<uint32_t>(low >> 32));
    Words c2 = SetWords(static_cast<uint32_t>(high));
    Words c3 = SetWords(static_cast<uint32_t>(high >> 32));
    for (int round = 0; round < 10; ++round) {
      Words high0, low0, high1, low1;
      Multiply(c0, SetWords(0xd2511f53u), &high0, &low0);
      Multiply(c2, SetWords(0xcd9e8d57u), &high1, &low1);
      c0 = Xor(Xor(high1, c1), SetWords(k0));
      c1 = low1;
      c2 = Xor(Xor(high0, c3), SetWords(k1));
      c3 = low0;
      k0 += 0x9e3779b9u;
      k1 += 0xbb67ae85u;
    }
    StoreWords(words[0] + i, c0);
    StoreWords(words[1] + i, c1);
    StoreWords(words[2] + i, c2);
    StoreWords(words[3] + i, c3);
  }
}

void Dropout(uint64_t key, uint64_t example, uint64_t first_block, uint32_t threshold, float scale,
             const float* x, float* y, int64_t n) {
  uint32_t words[4][kCounters];
  const uint32_t* word = words[0];
  for (int64_t i = 0; i < n; i += kDropoutBlock) {
    DrawWords(key, example, (first_block + static_cast<uint64_t>(i / kDropoutBlock)) * kCounters,
              words);
    if (n - i >= kDropoutBlock) {
      for (int64_t j = 0; j < kDropoutBlock; ++j) {
        const float scaled = x[i + j] * scale;
        y[i + j] = word[j] >= threshold ? scaled : 0.0f;
      }
    } else {
      for (int64_t j = 0; j < n - i; ++j) y[i + j] = word[j] >= threshold ? x[i + j] * scale : 0.0f;
    }
  }
}

// ---- extremes

inline Vec Better(bool largest, Vec best, Vec v) {
  return SelectNan(best, best, largest ? Max(best, v) : Min(best, v));
}

float Extreme(bool largest, const float* x, int64_t n) {
  Vec best[2] = {Set1(x[0]), Set1(x[0])};
  int64_t i = 0;
  for (; i + 2 * kLanes <= n; i += 2 * kLanes) {
    best[0] = Better(largest, best[0], Load(x + i));
    best[1] = Better(largest, best[1], Load(x + i + kLanes));
  }
  for (; i < n; i += kLanes) {
    best[0] = Better(largest, best[0], n - i < kLanes ? LoadPart(x + i, n - i, x[0]) : Load(x + i));
  }
  float lanes[kLanes];
  Store(lanes, Better(largest, best[0], best[1]));
  float result = lanes[0];
  for (int k = 1; k < kLanes; ++k) {
    const bool is_better = largest ? lanes[k] > result : lanes[k] < result;
    if (is_better || lanes[k] != lanes[k]) result = lanes[k];
  }
  return result;
}

}  // namespace

extern const SelectionKernels kSelectionKernels;
const SelectionKernels kSelectionKernels = {
    Compare, Select, Convert, Dropout, Extreme,
};

}  // namespace shoal::cpu::SHOAL_SIMD_NAMESPACE
