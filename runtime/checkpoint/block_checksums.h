// The sidecar of a file: a CRC32C of each of the file's blocks, so that any part can be read and
// checked alone.
//
//   "SHOALCRC"
//   u32  version, 1
//   u32  bytes of a block
//   u64  bytes of the file
//   u32  CRC32C of each block, one after the other
//   u32  CRC32C of all of the above
//
// All numbers are little-endian.
#ifndef SHOAL_RUNTIME_CHECKPOINT_BLOCK_CHECKSUMS_H_
#define SHOAL_RUNTIME_CHECKPOINT_BLOCK_CHECKSUMS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

inline constexpr uint32_t kChecksumBlockBytes = 1 << 20;

// Collects the checksums of a file that is written from its start.
class BlockChecksums {
 public:
  explicit BlockChecksums(uint32_t block_bytes = kChecksumBlockBytes) : block_bytes_(block_bytes) {}

  void Append(absl::string_view bytes);

  uint32_t block_bytes() const { return block_bytes_; }
  uint64_t file_bytes() const { return file_bytes_; }
  uint64_t num_blocks() const { return blocks_.size(); }
  uint32_t block(uint64_t index) const { return blocks_[index]; }
  uint32_t file_crc32c() const { return file_crc32c_; }  // not stored in the sidecar

  std::string Encode() const;
  // Decodes a sidecar. Returns DataLoss if it is damaged.
  static absl::StatusOr<BlockChecksums> Decode(absl::string_view sidecar);

 private:
  uint32_t block_bytes_;
  uint64_t file_bytes_ = 0;
  uint32_t file_crc32c_ = 0;
  std::vector<uint32_t> blocks_;
};

// Returns the checksum at the end of a sidecar, by which a manifest identifies it. The CRC32C of a
// whole sidecar is the same for all of them.
uint32_t SidecarChecksum(absl::string_view sidecar);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_BLOCK_CHECKSUMS_H_
