#include "runtime/checkpoint/shard_writer.h"

#include <memory>
#include <utility>

#include "absl/strings/str_format.h"

#include "base/crc32c.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/checksummed_file.h"
#include "runtime/checkpoint/safetensors.h"

namespace shoal {
namespace {

// The bytes of a tensor's entry in the header, in addition to its name.
constexpr uint64_t kHeaderBytesPerTensor = 160;

absl::string_view BytesOf(absl::Span<const float> data) {
  return {reinterpret_cast<const char*>(data.data()), data.size() * sizeof(float)};
}

}  // namespace

ShardWriter::ShardWriter(FileSystem& file_system, const Options& options)
    : file_system_(file_system), options_(options) {}

void ShardWriter::Add(const std::string& variable, uint32_t slice_index,
                      absl::Span<const float> value, absl::Span<const Slot> slots,
                      const SavedSliceState& state) {
  const std::string name = EncodeSliceName({variable, slice_index, ""});
  tensors_.push_back({name, value});
  for (const Slot& slot : slots) {
    tensors_.push_back({EncodeSliceName({variable, slice_index, slot.name}), slot.data});
  }
  metadata_[name] = EncodeSliceState(state);
}

uint64_t ShardWriter::expected_bytes() const {
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors_) {
    bytes += tensor.data.size() * sizeof(float) + tensor.name.size() + kHeaderBytesPerTensor;
  }
  return bytes + bytes / kChecksumBlockBytes * 4 + 4096;
}

absl::StatusOr<v1::ShardFile> ShardWriter::Finish() {
  const std::string base =
      absl::StrFormat("shard-%05d-of-%05d", options_.shard, options_.num_shards);
  v1::ShardFile shard;
  shard.set_name(base + ".safetensors");
  shard.set_sidecar(base + ".crc32c");
  std::string sidecar;
  RETURN_IF_ERROR(WriteTensors(shard.name(), &shard, &sidecar));
  RETURN_IF_ERROR(WriteSidecar(sidecar, &shard));
  RETURN_IF_ERROR(file_system_.SyncDirectory(options_.directory));
  return shard;
}

absl::Status ShardWriter::WriteTensors(const std::string& name, v1::ShardFile* shard,
                                       std::string* sidecar) {
  SafetensorsHeader header;
  header.metadata = metadata_;
  header.metadata["format"] = "shoal-shard-1";
  uint64_t offset = 0;
  for (const Tensor& tensor : tensors_) {
    const uint64_t end = offset + tensor.data.size() * sizeof(float);
    header.tensors.push_back({tensor.name, "F32", {tensor.data.size()}, offset, end});
    offset = end;
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ChecksummedFileWriter> file,
      ChecksummedFileWriter::Create(file_system_, options_.directory, name, expected_bytes()));
  RETURN_IF_ERROR(file->Append(EncodeSafetensorsHeader(header)));
  for (const Tensor& tensor : tensors_) RETURN_IF_ERROR(file->Append(BytesOf(tensor.data)));
  ASSIGN_OR_RETURN(const BlockChecksums checksums, file->Finish());
  shard->set_bytes(checksums.file_bytes());
  shard->set_crc32c(checksums.file_crc32c());
  *sidecar = checksums.Encode();
  return absl::OkStatus();
}

absl::Status ShardWriter::WriteSidecar(const std::string& contents, v1::ShardFile* shard) {
  ASSIGN_OR_RETURN(const std::unique_ptr<ChecksummedFileWriter> file,
                   ChecksummedFileWriter::Create(file_system_, options_.directory, shard->sidecar(),
                                                 contents.size()));
  RETURN_IF_ERROR(file->Append(contents));
  RETURN_IF_ERROR(file->Finish().status());
  shard->set_sidecar_crc32c(Crc32c(contents));
  return absl::OkStatus();
}

}  // namespace shoal
