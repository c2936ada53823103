#include "base/random.h"

#include <cmath>
#include <cstdint>
#include <cstring>

#include "absl/types/span.h"

#include "base/hash.h"
#include "base/log.h"

namespace shoal {
namespace {

// The sequences that a counter's high word selects, so that fillers of one key do not share words.
enum Sequence : uint64_t { kBits = 1, kUniform = 2, kNormal = 3, kDerive = 4, kTruncated = 5 };

struct Pair {
  double first;
  double second;
};

// ln(x) for normal x in (0, 1]: exponent, then 2 atanh((m-1)/(m+1)) for m in [sqrt(1/2), sqrt(2)).
double Log(double x) {
  constexpr double kLn2 = 0.693147180559945309417;
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  int exponent = static_cast<int>(bits >> 52) - 1023;
  bits = (bits & 0x000fffffffffffffu) | 0x3ff0000000000000u;
  double mantissa;
  std::memcpy(&mantissa, &bits, sizeof(mantissa));
  if (mantissa > 1.41421356237309504880) {
    mantissa *= 0.5;
    ++exponent;
  }
  const double t = (mantissa - 1.0) / (mantissa + 1.0);
  const double t2 = t * t;
  double sum = 0.0;
  for (int k = 19; k >= 1; k -= 2) sum = sum * t2 + 1.0 / k;
  return 2.0 * t * sum + exponent * kLn2;
}

// Sine and cosine of 2 pi turn, for turn in [0, 1): Taylor series within an eighth of a turn.
Pair SinCos(double turn) {
  constexpr double kHalfPi = 1.57079632679489661923;
  const double quarters = turn * 4.0;
  // At a half either neighbour will do. NOLINTNEXTLINE(bugprone-incorrect-roundings)
  const int quadrant = static_cast<int>(quarters + 0.5);
  const double x = (quarters - quadrant) * kHalfPi;
  const double x2 = x * x;
  double sine = 1.0;
  double cosine = 1.0;
  for (int k = 7; k >= 1; --k) {
    sine = 1.0 - sine * x2 / (2 * k * (2 * k + 1));
    cosine = 1.0 - cosine * x2 / (2 * k * (2 * k - 1));
  }
  sine *= x;
  switch (quadrant & 3) {
    case 0:
      return {sine, cosine};
    case 1:
      return {cosine, -sine};
    case 2:
      return {-sine, -cosine};
    default:
      return {-cosine, sine};
  }
}

// Two normals from two words; the first word is moved into (0, 1] for the logarithm.
Pair BoxMuller(uint32_t a, uint32_t b) {
  constexpr double kUnit = 1.0 / 4294967296.0;
  const double radius = std::sqrt(-2.0 * Log((static_cast<double>(a) + 1.0) * kUnit));
  const Pair angle = SinCos(static_cast<double>(b) * kUnit);
  return {radius * angle.second, radius * angle.first};
}

std::array<float, 4> UniformBlock(const PhiloxBlock& bits) {
  std::array<float, 4> values;
  for (int lane = 0; lane < 4; ++lane) values[lane] = UniformFromBits(bits[lane]);
  return values;
}

std::array<float, 4> NormalBlock(const PhiloxBlock& bits) {
  const Pair low = BoxMuller(bits[0], bits[1]);
  const Pair high = BoxMuller(bits[2], bits[3]);
  return {static_cast<float>(low.first), static_cast<float>(low.second),
          static_cast<float>(high.first), static_cast<float>(high.second)};
}

template <typename BlockFunction>
void FillBlocks(uint64_t key, Sequence sequence, uint64_t first_index, absl::Span<float> out,
                BlockFunction values_of) {
  size_t i = 0;
  while (i < out.size()) {
    const uint64_t index = first_index + i;
    const std::array<float, 4> values = values_of(Philox(key, sequence, index / 4));
    for (uint64_t lane = index % 4; lane < 4 && i < out.size(); ++lane) out[i++] = values[lane];
  }
}

}  // namespace

PhiloxBlock Philox(uint64_t key, uint64_t high, uint64_t low) {
  uint32_t k0 = static_cast<uint32_t>(key);
  uint32_t k1 = static_cast<uint32_t>(key >> 32);
  PhiloxBlock c = {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32),
                   static_cast<uint32_t>(high), static_cast<uint32_t>(high >> 32)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xd2511f53u} * c[0];
    const uint64_t p1 = uint64_t{0xcd9e8d57u} * c[2];
    c = {static_cast<uint32_t>(p1 >> 32) ^ c[1] ^ k0, static_cast<uint32_t>(p1),
         static_cast<uint32_t>(p0 >> 32) ^ c[3] ^ k1, static_cast<uint32_t>(p0)};
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return c;
}

uint64_t DeriveKey(uint64_t key, uint64_t purpose) {
  const PhiloxBlock block = Philox(key, kDerive, purpose);
  return block[0] | static_cast<uint64_t>(block[1]) << 32;
}

uint64_t RandomBits(uint64_t key, uint64_t index) {
  const PhiloxBlock block = Philox(key, kBits, index);
  return block[0] | static_cast<uint64_t>(block[1]) << 32;
}

uint64_t RandomBelow(uint64_t key, uint64_t index, uint64_t bound) {
  DCHECK_GT(bound, 0u);
  __extension__ using Product = unsigned __int128;
  return static_cast<uint64_t>(static_cast<Product>(RandomBits(key, index)) * bound >> 64);
}

void FillUniform(uint64_t key, uint64_t first_index, absl::Span<float> out) {
  FillBlocks(key, kUniform, first_index, out, UniformBlock);
}

void FillNormal(uint64_t key, uint64_t first_index, absl::Span<float> out) {
  FillBlocks(key, kNormal, first_index, out, NormalBlock);
}

void FillTruncatedNormal(uint64_t key, uint64_t first_index, absl::Span<float> out) {
  FillBlocks(key, kTruncated, first_index, out, NormalBlock);
  for (size_t i = 0; i < out.size(); ++i) {
    // The few that fell outside are drawn from a key per attempt; 1 in 22 remains each time.
    for (uint64_t attempt = 1; std::abs(out[i]) > 2.0f; ++attempt) {
      const PhiloxBlock bits = Philox(DeriveKey(key, attempt), kTruncated, first_index + i);
      out[i] = NormalBlock(bits)[0];
    }
  }
}

Permutation::Permutation(uint64_t size, uint64_t seed, uint64_t epoch) : size_(size) {
  int bits = 0;
  while (bits < 64 && (size - (size > 0)) >> bits != 0) ++bits;
  low_bits_ = bits / 2;
  low_mask_ = (uint64_t{1} << low_bits_) - 1;
  high_mask_ = bits - low_bits_ == 0 ? 0 : (uint64_t{1} << (bits - low_bits_)) - 1;
  const uint64_t key = DeriveKey(seed, epoch);
  for (int round = 0; round < kRounds; ++round) round_keys_[round] = RandomBits(key, round);
}

uint64_t Permutation::operator()(uint64_t index) const {
  DCHECK_LT(index, size_);
  uint64_t value = index;
  do {
    value = Walk(value);
  } while (value >= size_);
  return value;
}

uint64_t Permutation::Walk(uint64_t value) const {
  uint64_t low = value & low_mask_;
  uint64_t high = value >> low_bits_;
  for (int round = 0; round < kRounds; round += 2) {
    high ^= MixBits(low + round_keys_[round]) & high_mask_;
    low ^= MixBits(high + round_keys_[round + 1]) & low_mask_;
  }
  return high << low_bits_ | low;
}

}  // namespace shoal
