#include "base/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

namespace shoal {

// ISA-L chooses the fastest implementation for the CPU at run time. It needs a mutable pointer and
// an int length, and does not do the final inversion.
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size) {
  constexpr size_t kMaxPiece = size_t{1} << 30;
  auto* bytes = static_cast<unsigned char*>(const_cast<void*>(data));
  crc = ~crc;
  while (size > 0) {
    const size_t piece = std::min(size, kMaxPiece);
    crc = crc32_iscsi(bytes, static_cast<int>(piece), crc);
    bytes += piece;
    size -= piece;
  }
  return ~crc;
}

}  // namespace shoal
