// Reads and writes the integers in files, which are little-endian on every machine.
#ifndef SHOAL_RUNTIME_CHECKPOINT_LITTLE_ENDIAN_H_
#define SHOAL_RUNTIME_CHECKPOINT_LITTLE_ENDIAN_H_

#include <cstddef>

namespace shoal {

template <typename Unsigned>
void StoreLittleEndian(Unsigned value, char* to) {
  for (size_t k = 0; k < sizeof(Unsigned); ++k) to[k] = static_cast<char>(value >> 8 * k & 0xff);
}

template <typename Unsigned>
Unsigned LoadLittleEndian(const char* from) {
  Unsigned value = 0;
  for (size_t k = 0; k < sizeof(Unsigned); ++k) {
    value |= static_cast<Unsigned>(static_cast<unsigned char>(from[k])) << 8 * k;
  }
  return value;
}

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_LITTLE_ENDIAN_H_
