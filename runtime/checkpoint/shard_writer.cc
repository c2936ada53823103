#include "runtime/checkpoint/shard_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <type_traits>
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

// The bytes that are gathered before they are appended to the file.
constexpr uint64_t kGatheredBytes = 1 << 18;

template <typename T>
const char* DtypeOf() {
  if constexpr (std::is_same_v<T, float>) {
    return "F32";
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    return "U32";
  } else {
    static_assert(std::is_same_v<T, uint64_t>);
    return "U64";
  }
}

}  // namespace

ShardWriter::ShardWriter(FileSystem& file_system, const Options& options)
    : file_system_(file_system), options_(options) {}

void ShardWriter::Add(const std::string& variable, uint32_t slice_index,
                      absl::Span<const float> value, absl::Span<const Slot> slots,
                      const SavedSliceState& state) {
  const std::string name = EncodeSliceName({variable, slice_index, ""});
  AddVector(name, value);
  for (const Slot& slot : slots) {
    AddVector(EncodeSliceName({variable, slice_index, slot.name}), slot.data);
  }
  metadata_[name] = EncodeSliceState(state);
}

void ShardWriter::AddBucket(const std::string& table, uint32_t bucket, uint64_t dim,
                            absl::Span<const RowSlot> slots, const BucketRows& rows,
                            const SavedSliceState& state) {
  const auto name_of = [&](const char* part) { return EncodeSliceName({table, bucket, part}); };
  metadata_[name_of("")] = EncodeSliceState(state);
  AddVector<uint64_t>(name_of(kBucketKeys), rows.keys);
  if (!rows.counted_keys.empty()) {
    AddVector<uint64_t>(name_of(kBucketCountedKeys), rows.counted_keys);
    AddVector<uint32_t>(name_of(kBucketCounts), rows.counts);
  }
  if (rows.keys.empty()) return;
  AddVector<uint32_t>(name_of(kBucketTouched), rows.touched);
  const uint64_t num_rows = rows.keys.size();
  const uint64_t stride = rows.rows.size() / num_rows * sizeof(float);
  const char* data = reinterpret_cast<const char*>(rows.rows.data());
  const auto add = [&](const char* part, uint64_t floats) {
    tensors_.push_back(
        {name_of(part), "F32", {num_rows, floats}, data, num_rows, floats * sizeof(float), stride});
    data += floats * sizeof(float);
  };
  add(kBucketValues, dim);
  for (const RowSlot& slot : slots) add(slot.name.c_str(), slot.floats);
}

template <typename T>
void ShardWriter::AddVector(std::string name, absl::Span<const T> data) {
  const uint64_t bytes = data.size() * sizeof(T);
  tensors_.push_back({std::move(name),
                      DtypeOf<T>(),
                      {data.size()},
                      reinterpret_cast<const char*>(data.data()),
                      1,
                      bytes,
                      bytes});
}

uint64_t ShardWriter::expected_bytes() const {
  uint64_t bytes = 0;
  for (const Tensor& tensor : tensors_) {
    bytes += tensor.bytes() + tensor.name.size() + kHeaderBytesPerTensor;
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
    const uint64_t end = offset + tensor.bytes();
    header.tensors.push_back({tensor.name, tensor.dtype, tensor.shape, offset, end});
    offset = end;
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ChecksummedFileWriter> file,
      ChecksummedFileWriter::Create(file_system_, options_.directory, name, expected_bytes()));
  RETURN_IF_ERROR(file->Append(EncodeSafetensorsHeader(header)));
  for (const Tensor& tensor : tensors_) RETURN_IF_ERROR(AppendTensor(tensor, file.get()));
  ASSIGN_OR_RETURN(const BlockChecksums checksums, file->Finish());
  shard->set_bytes(checksums.file_bytes());
  shard->set_crc32c(checksums.file_crc32c());
  *sidecar = checksums.Encode();
  return absl::OkStatus();
}

absl::Status ShardWriter::AppendTensor(const Tensor& tensor, ChecksummedFileWriter* file) {
  if (tensor.stride == tensor.row_bytes) return file->Append({tensor.data, tensor.bytes()});
  const uint64_t rows_at_once = std::max<uint64_t>(kGatheredBytes / tensor.row_bytes, 1);
  for (uint64_t begin = 0; begin < tensor.num_rows; begin += rows_at_once) {
    const uint64_t n = std::min(rows_at_once, tensor.num_rows - begin);
    gathered_.resize(n * tensor.row_bytes);
    for (uint64_t r = 0; r < n; ++r) {
      std::memcpy(&gathered_[r * tensor.row_bytes], tensor.data + (begin + r) * tensor.stride,
                  tensor.row_bytes);
    }
    RETURN_IF_ERROR(file->Append(gathered_));
  }
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
