#include "runtime/checkpoint/shard_reader.h"

#include <optional>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/checkpoint.pb.h"
#include "runtime/checkpoint/block_checksums.h"
#include "runtime/checkpoint/little_endian.h"
#include "runtime/checkpoint/safetensors.h"

namespace shoal {
namespace {

// Block checksums of the largest shard that can be: 4 bytes for each MiB.
constexpr uint64_t kMostSidecarBytes = uint64_t{1} << 26;

// Before format 5, manifests had the CRC32C of a whole sidecar. It ends with the CRC32C of what is
// before it, so this is the same number for all of them.
constexpr uint32_t kCrc32cOfWholeSidecar = 0x48674bc7;

absl::Status InFile(const std::string& path, const absl::Status& status) {
  return absl::DataLossError(absl::StrCat(path, ": ", status.message()));
}

// Returns nullopt if a shard cannot have such a tensor.
std::optional<ShardReader::Entry> ToEntry(const SafetensorsEntry& tensor) {
  using Entry = ShardReader::Entry;
  Entry entry;
  if (tensor.dtype == "U32") entry.type = Entry::kUint32;
  if (tensor.dtype == "U64") entry.type = Entry::kUint64;
  const bool is_known = tensor.dtype == "F32" || entry.type != Entry::kFloat;
  const bool is_matrix =
      tensor.shape.size() == 2 && entry.type == Entry::kFloat && tensor.shape[1] > 0;
  if (!is_known || (tensor.shape.size() != 1 && !is_matrix)) return std::nullopt;
  entry.num_elements = tensor.shape[0];
  if (is_matrix) {
    entry.row_elements = tensor.shape[1];
    entry.num_elements *= entry.row_elements;
  }
  return entry;
}

}  // namespace

absl::StatusOr<std::unique_ptr<ShardReader>> ShardReader::Open(FileSystem& file_system,
                                                               const std::string& directory,
                                                               const v1::ShardFile& shard) {
  const std::string path = JoinPath(directory, shard.name());
  const std::string sidecar_path = JoinPath(directory, shard.sidecar());
  ASSIGN_OR_RETURN(const std::string sidecar,
                   ReadFile(file_system, sidecar_path, kMostSidecarBytes));
  absl::StatusOr<BlockChecksums> checksums = BlockChecksums::Decode(sidecar);
  if (!checksums.ok()) return InFile(sidecar_path, checksums.status());
  if (shard.sidecar_crc32c() != SidecarChecksum(sidecar) &&
      shard.sidecar_crc32c() != kCrc32cOfWholeSidecar) {
    return absl::DataLossError(
        absl::StrCat(sidecar_path, ": belongs to another shard than the checkpoint names"));
  }
  if (checksums->file_bytes() != shard.bytes()) {
    return absl::DataLossError(absl::StrCat(sidecar_path, ": is of ", checksums->file_bytes(),
                                            " bytes, the manifest says ", shard.bytes()));
  }
  ASSIGN_OR_RETURN(std::unique_ptr<ChecksummedFileReader> file,
                   ChecksummedFileReader::Open(file_system, path, *std::move(checksums)));
  auto reader = absl::WrapUnique(new ShardReader(path, std::move(file)));
  RETURN_IF_ERROR(reader->ReadIndex());
  return reader;
}

ShardReader::ShardReader(std::string path, std::unique_ptr<ChecksummedFileReader> file)
    : path_(std::move(path)), file_(std::move(file)) {}

// The header goes through the checksums like everything else.
absl::Status ShardReader::ReadIndex() {
  char length_bytes[8] = {};
  RETURN_IF_ERROR(file_->Read(0, absl::MakeSpan(length_bytes)));
  const uint64_t length = LoadLittleEndian<uint64_t>(length_bytes);
  ASSIGN_OR_RETURN(const uint64_t file_bytes, file_->file().Size());
  if (length > kMostSafetensorsHeaderBytes || length > file_bytes - 8) {
    return absl::DataLossError(absl::StrCat(path_, ": no safetensors header"));
  }
  std::string json(length, '\0');
  RETURN_IF_ERROR(file_->Read(8, absl::MakeSpan(&json[0], length)));
  const auto header = DecodeSafetensorsHeader(json, file_bytes - 8 - length);
  if (!header.ok()) return InFile(path_, header.status());
  for (const SafetensorsEntry& tensor : header->tensors) {
    auto name = DecodeSliceName(tensor.name);
    if (!name.ok()) return InFile(path_, name.status());
    std::optional<Entry> entry = ToEntry(tensor);
    if (!entry.has_value()) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ", tensor.name, " is neither a vector nor a matrix of floats"));
    }
    entry->offset = 8 + length + tensor.begin;
    entries_[*std::move(name)] = *entry;
  }
  for (const auto& [key, value] : header->metadata) {
    if (key == "format") continue;
    if (key == kShardBasesKey) {
      absl::StatusOr<std::vector<ShardBase>> bases = DecodeShardBases(value);
      if (!bases.ok()) return InFile(path_, bases.status());
      bases_ = *std::move(bases);
      continue;
    }
    auto name = DecodeSliceName(key);
    if (!name.ok()) return InFile(path_, name.status());
    auto state = DecodeSliceState(value);
    if (!state.ok()) return InFile(path_, state.status());
    states_[*std::move(name)] = *std::move(state);
  }
  return absl::OkStatus();
}

absl::Status ShardReader::Read(const Entry& entry, uint64_t first, absl::Span<float> out) {
  if (first > entry.num_elements || out.size() > entry.num_elements - first) {
    return absl::DataLossError(absl::StrCat(path_, ": a slice has ", entry.num_elements,
                                            " elements, wanted are [", first, ", ",
                                            first + out.size(), ")"));
  }
  return file_->Read(entry.offset + first * sizeof(float),
                     {reinterpret_cast<char*>(out.data()), out.size() * sizeof(float)});
}

}  // namespace shoal
