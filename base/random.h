// Random numbers that depend only on (key, counter). So the same key gives the same bytes, no
// matter which thread or process computes a number, in which order, and how many others were drawn.
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

// Returns four random words for the 128-bit counter (high, low).
PhiloxBlock Philox(uint64_t key, uint64_t high, uint64_t low);

// Returns a key for one purpose of another key, as in DeriveKey(DeriveKey(seed, epoch), op).
uint64_t DeriveKey(uint64_t key, uint64_t purpose);

// Returns a random 64-bit word for counter `index`.
uint64_t RandomBits(uint64_t key, uint64_t index);

// Returns a number in [0, bound); bound must be > 0. The bias is below bound / 2^64.
uint64_t RandomBelow(uint64_t key, uint64_t index, uint64_t bound);

// Returns a number in [0, 1), a multiple of 2^-24.
constexpr float UniformFromBits(uint32_t bits) {
  return static_cast<float>(bits >> 8) * (1.0f / 16777216.0f);
}

// The functions below set out[i] to element first_index + i of the sequence that `key` names. So a
// tensor that is filled in pieces has the same bytes as one that is filled at once.

// Uniform in [0, 1).
void FillUniform(uint64_t key, uint64_t first_index, absl::Span<float> out);

// Fills with standard normal numbers (Box-Muller on pairs of words).
void FillNormal(uint64_t key, uint64_t first_index, absl::Span<float> out);

// Fills with standard normal numbers; those beyond two standard deviations are drawn again, as in
// TensorFlow's truncated_normal.
void FillTruncatedNormal(uint64_t key, uint64_t first_index, absl::Span<float> out);

// A permutation of [0, size) that depends on (seed, epoch). It computes single elements and stores
// no table: it applies a Feistel network over the next power of two until the value is in range
// (Black and Rogaway, "Ciphers with arbitrary finite domains", 2002). Immutable and thread-safe.
class Permutation {
 public:
  Permutation(uint64_t size, uint64_t seed, uint64_t epoch);

  uint64_t size() const { return size_; }

  // Returns the new position of element `index` < size(). It takes fewer than two passes through
  // the network on average.
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
