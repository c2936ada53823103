// Random numbers that are a pure function of (key, counter), so that who computes a number, in
// which order and how many others were drawn makes no difference: same key, same bytes.
//
// The generator is Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3",
// SC 2011). Nothing here calls the C library's log or cos, whose last bit depends on the CPU.
#ifndef SHOAL_BASE_RANDOM_H_
#define SHOAL_BASE_RANDOM_H_

#include <array>
#include <cstdint>

#include "absl/types/span.h"

namespace shoal {

using PhiloxBlock = std::array<uint32_t, 4>;

// Four random words for the 128-bit counter (high, low).
PhiloxBlock Philox(uint64_t key, uint64_t high, uint64_t low);

// A key for a purpose within another: DeriveKey(DeriveKey(seed, epoch), op).
uint64_t DeriveKey(uint64_t key, uint64_t purpose);

// One random 64-bit word for counter `index`.
uint64_t RandomBits(uint64_t key, uint64_t index);

// In [0, bound), bound > 0. The bias is below bound / 2^64.
uint64_t RandomBelow(uint64_t key, uint64_t index, uint64_t bound);

// In [0, 1), a multiple of 2^-24.
constexpr float UniformFromBits(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

// The fillers set out[i] to element first_index + i of the sequence that `key` names: a tensor
// filled in pieces has the same bytes as one filled at once.

// Uniform in [0, 1).
void FillUniform(uint64_t key, uint64_t first_index, absl::Span<float> out);

// Standard normal: Box-Muller on pairs of words.
void FillNormal(uint64_t key, uint64_t first_index, absl::Span<float> out);

// Standard normal, drawn again while beyond two standard deviations, as TensorFlow's
// truncated_normal.
void FillTruncatedNormal(uint64_t key, uint64_t first_index, absl::Span<float> out);

// A permutation of [0, size) chosen by (seed, epoch), one element at a time, without memory: a
// Feistel network over the next power of two, walked until the value falls in range (Black and
// Rogaway, "Ciphers with arbitrary finite domains", 2002). Immutable, so thread safe.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t seed, uint64_t epoch);

  uint64_t size() const { return size_; }

  // Returns the new place of element `index` < size(). Expected below two walks.
  uint64_t operator()(uint64_t index) const;

 private:
  static constexpr int kRounds = 8;

  uint64_t Walk(uint64_t value) const;

  uint64_t size_;
  int low_bits_;
  uint64_t low_mask_;
  uint64_t high_mask_;
  std::array<uint64_t, kRounds> round_keys_;
};

}  // namespace shoal

#endif  // SHOAL_BASE_RANDOM_H_
