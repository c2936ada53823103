// The type bfloat16 is the upper half of a float32. It has the same range and 8 bits of precision.
#ifndef SHOAL_ML_TENSOR_BFLOAT16_H_
#define SHOAL_ML_TENSOR_BFLOAT16_H_

#include <cstdint>
#include <cstring>

#include "absl/base/attributes.h"

namespace shoal {

// The conversion from float rounds to nearest, ties to even. Overflow gives infinity, NaN becomes a
// quiet NaN with the same sign, and denormals are rounded like all other numbers. The conversion to
// float is exact. Both are always inlined, because the linker must not use a copy that was compiled
// for a different instruction set.
struct Bfloat16 {
  uint16_t bits = 0;

  Bfloat16() = default;
  ABSL_ATTRIBUTE_ALWAYS_INLINE explicit Bfloat16(float value) {
    uint32_t word;
    std::memcpy(&word, &value, sizeof(word));
    const bool is_nan = (word & 0x7fffffffu) > 0x7f800000u;
    const uint32_t rounded = (word + 0x7fffu + ((word >> 16) & 1u)) >> 16;
    bits = static_cast<uint16_t>(is_nan ? (word >> 16) | 0x40u : rounded);
  }
  // NOLINTNEXTLINE(google-explicit-constructor): it is exact
  ABSL_ATTRIBUTE_ALWAYS_INLINE operator float() const {
    const uint32_t word = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &word, sizeof(value));
    return value;
  }
};
static_assert(sizeof(Bfloat16) == 2, "tensors hold nothing else");

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_BFLOAT16_H_
