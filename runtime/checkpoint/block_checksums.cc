#include "runtime/checkpoint/block_checksums.h"

#include <algorithm>

#include "absl/status/status.h"

#include "base/crc32c.h"
#include "runtime/checkpoint/little_endian.h"

namespace shoal {
namespace {

constexpr absl::string_view kMagic = "SHOALCRC";
constexpr uint32_t kVersion = 1;
constexpr size_t kHeadBytes = 24;

void AppendU32(uint32_t value, std::string* bytes) {
  char encoded[4];
  StoreLittleEndian(value, encoded);
  bytes->append(encoded, sizeof(encoded));
}

}  // namespace

void BlockChecksums::Append(absl::string_view bytes) {
  file_crc32c_ = ExtendCrc32c(file_crc32c_, bytes.data(), bytes.size());
  while (!bytes.empty()) {
    const uint64_t filled = file_bytes_ % block_bytes_;
    if (filled == 0) blocks_.push_back(0);
    const size_t taken = std::min<uint64_t>(bytes.size(), block_bytes_ - filled);
    blocks_.back() = ExtendCrc32c(blocks_.back(), bytes.data(), taken);
    file_bytes_ += taken;
    bytes.remove_prefix(taken);
  }
}

std::string BlockChecksums::Encode() const {
  std::string bytes(kMagic);
  AppendU32(kVersion, &bytes);
  AppendU32(block_bytes_, &bytes);
  AppendU32(static_cast<uint32_t>(file_bytes_), &bytes);
  AppendU32(static_cast<uint32_t>(file_bytes_ >> 32), &bytes);
  for (uint32_t block : blocks_) AppendU32(block, &bytes);
  AppendU32(Crc32c(bytes), &bytes);
  return bytes;
}

absl::StatusOr<BlockChecksums> BlockChecksums::Decode(absl::string_view sidecar) {
  if (sidecar.size() < kHeadBytes + 4 || sidecar.size() % 4 != 0 ||
      sidecar.substr(0, kMagic.size()) != kMagic) {
    return absl::DataLossError("not a file of block checksums, or truncated");
  }
  const absl::string_view body = sidecar.substr(0, sidecar.size() - 4);
  if (Crc32c(body) != LoadLittleEndian<uint32_t>(body.data() + body.size())) {
    return absl::DataLossError("the block checksums are damaged");
  }
  if (LoadLittleEndian<uint32_t>(&body[8]) != kVersion) {
    return absl::DataLossError("block checksums of a version that this program does not know");
  }
  BlockChecksums result(LoadLittleEndian<uint32_t>(&body[12]));
  result.file_bytes_ = LoadLittleEndian<uint64_t>(&body[16]);
  const uint64_t blocks = (body.size() - kHeadBytes) / 4;
  if (result.block_bytes_ == 0 ||
      result.file_bytes_ / result.block_bytes_ + (result.file_bytes_ % result.block_bytes_ != 0) !=
          blocks) {
    return absl::DataLossError("the block checksums do not fit their file's size");
  }
  for (uint64_t k = 0; k < blocks; ++k) {
    result.blocks_.push_back(LoadLittleEndian<uint32_t>(&body[kHeadBytes + 4 * k]));
  }
  return result;
}

uint32_t SidecarChecksum(absl::string_view sidecar) {
  return LoadLittleEndian<uint32_t>(&sidecar[sidecar.size() - sizeof(uint32_t)]);
}

}  // namespace shoal
