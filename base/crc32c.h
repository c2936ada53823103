// CRC-32C (Castagnoli), the checksum of messages and checkpoint blocks: polynomial 0x1edc6f41,
// reflected, initial value and final xor all ones (RFC 3720). Runs at memory speed.
#ifndef SHOAL_BASE_CRC32C_H_
#define SHOAL_BASE_CRC32C_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

namespace shoal {

// Returns the checksum of the bytes whose checksum is `crc`, followed by data[0, size).
uint32_t ExtendCrc32c(uint32_t crc, const void* data, size_t size);

inline uint32_t Crc32c(const void* data, size_t size) { return ExtendCrc32c(0, data, size); }
inline uint32_t Crc32c(absl::string_view bytes) { return Crc32c(bytes.data(), bytes.size()); }

}  // namespace shoal

#endif  // SHOAL_BASE_CRC32C_H_
