// A 64-bit fingerprint that is the same in every process, build and release: it may be stored and
// sent. Not for keys that an adversary chooses.
#ifndef SHOAL_BASE_HASH_H_
#define SHOAL_BASE_HASH_H_

#include <cstdint>

#include "absl/strings/string_view.h"

namespace shoal {

// MurmurHash64A (Appleby, public domain), reading little-endian words.
uint64_t Fingerprint64(absl::string_view bytes, uint64_t seed = 0);

// A bijection in which every bit of the input affects all bits of the output (the finalizer of
// SplitMix64).
constexpr uint64_t MixBits(uint64_t x) {
  x ^= x >> 30;
  x *= 0xbf58476d1ce4e5b9u;
  x ^= x >> 27;
  x *= 0x94d049bb133111ebu;
  x ^= x >> 31;
  return x;
}

// Order matters: CombineFingerprints(a, b) != CombineFingerprints(b, a).
constexpr uint64_t CombineFingerprints(uint64_t a, uint64_t b) {
  return MixBits(a + 0x9e3779b97f4a7c15u) * 3 + MixBits(b ^ 0xd1b54a32d192ed03u);
}

}  // namespace shoal

#endif  // SHOAL_BASE_HASH_H_
