#include "base/hash.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace shoal {
namespace {

constexpr uint64_t kMultiplier = 0xc6a4a7935bd1e995u;

uint64_t LoadWord(const char* data, size_t size) {
  uint64_t word = 0;
  for (size_t i = 0; i < size; ++i) {
    word |= static_cast<uint64_t>(static_cast<unsigned char>(data[i])) << (8 * i);
  }
  return word;
}

}  // namespace

uint64_t Fingerprint64(absl::string_view bytes, uint64_t seed) {
  uint64_t hash = seed ^ (bytes.size() * kMultiplier);
  const char* data = bytes.data();
  size_t left = bytes.size();
  for (; left >= 8; data += 8, left -= 8) {
    uint64_t word = LoadWord(data, 8);
    word *= kMultiplier;
    word ^= word >> 47;
    word *= kMultiplier;
    hash = (hash ^ word) * kMultiplier;
  }
  if (left > 0) hash = (hash ^ LoadWord(data, left)) * kMultiplier;
  hash ^= hash >> 47;
  hash *= kMultiplier;
  hash ^= hash >> 47;
  return hash;
}

}  // namespace shoal
