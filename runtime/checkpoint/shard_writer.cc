#include "runtime/checkpoint/shard_writer.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "absl/strings/str_format.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "runtime/checkpoint/block_checksums.h"
#include "runtime/checkpoint/checksummed_file.h"
#include "runtime/checkpoint/safetensors.h"

namespace shoal {
namespace {

// The bytes of a tensor's entry in the header, in addition to its name.
constexpr uint64_t kHeaderBytesPerTensor = 160;

// The bytes that are gathered before they are appended to the file.
constexpr uint64_t kGatheredBytes = 1 << 18;

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

void ShardWriter::AddBucket(Bucket bucket, const SavedSliceState& state) {
  metadata_[EncodeSliceName({bucket.table, bucket.index, ""})] = EncodeSliceState(state);
  buckets_.push_back(std::move(bucket));
  const Bucket& added = buckets_.back();
  AddPart(kBucketKeys, "U64", added.num_rows, sizeof(uint64_t), 0,
          [](const BucketRows& rows) { return rows.keys.data(); });
  if (added.num_counted > 0) {
    AddPart(kBucketCountedKeys, "U64", added.num_counted, sizeof(uint64_t), 0,
            [](const BucketRows& rows) { return rows.counted_keys.data(); });
    AddPart(kBucketCounts, "U32", added.num_counted, sizeof(uint32_t), 0,
            [](const BucketRows& rows) { return rows.counts.data(); });
    AddPart(kBucketCountedTouched, "U32", added.num_counted, sizeof(uint32_t), 0,
            [](const BucketRows& rows) { return rows.counted_touched.data(); });
  }
  if (added.num_rows == 0) return;
  AddPart(kBucketTouched, "U32", added.num_rows, sizeof(uint32_t), 0,
          [](const BucketRows& rows) { return rows.touched.data(); });
  uint64_t begin = 0;
  const auto add = [&](const char* part, uint64_t floats) {
    AddPart(part, "F32", added.num_rows, sizeof(float), floats,
            [begin](const BucketRows& rows) { return rows.rows.data() + begin; });
    begin += floats;
  };
  add(kBucketValues, added.dim);
  for (const RowSlot& slot : added.slots) add(slot.name.c_str(), slot.floats);
}

void ShardWriter::AddPart(const char* part, const char* dtype, uint64_t num_rows,
                          uint64_t element_bytes, uint64_t row_floats,
                          std::function<const void*(const BucketRows&)> data_of) {
  const Bucket& bucket = buckets_.back();
  Tensor tensor;
  tensor.name = EncodeSliceName({bucket.table, bucket.index, part});
  tensor.dtype = dtype;
  tensor.shape = {num_rows};
  tensor.num_rows = num_rows;
  tensor.row_bytes = tensor.stride = element_bytes;
  if (row_floats > 0) {
    tensor.shape.push_back(row_floats);
    tensor.row_bytes = row_floats * element_bytes;
    tensor.stride = bucket.dim * element_bytes;
    for (const RowSlot& slot : bucket.slots) tensor.stride += slot.floats * element_bytes;
  }
  tensor.bucket = buckets_.size() - 1;
  tensor.data_of = std::move(data_of);
  tensors_.push_back(std::move(tensor));
}

void ShardWriter::AddVector(std::string name, absl::Span<const float> data) {
  Tensor tensor;
  tensor.name = std::move(name);
  tensor.dtype = "F32";
  tensor.shape = {data.size()};
  tensor.data = reinterpret_cast<const char*>(data.data());
  tensor.row_bytes = tensor.stride = data.size() * sizeof(float);
  tensors_.push_back(std::move(tensor));
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
  const std::string encoded = EncodeSafetensorsHeader(header);
  if (encoded.size() - sizeof(uint64_t) > kMostSafetensorsHeaderBytes) {
    return absl::FailedPreconditionError(absl::StrFormat(
        "%s needs a header of %d bytes, and readers take at most %d: use more ps tasks, or start a "
        "new run with fewer `buckets` in its tables or a larger cluster.slice_bytes",
        name, encoded.size() - sizeof(uint64_t), kMostSafetensorsHeaderBytes));
  }
  ASSIGN_OR_RETURN(
      const std::unique_ptr<ChecksummedFileWriter> file,
      ChecksummedFileWriter::Create(file_system_, options_.directory, name, expected_bytes()));
  RETURN_IF_ERROR(file->Append(encoded));
  for (const Tensor& tensor : tensors_) {
    if (should_stop_ != nullptr && should_stop_()) {
      return absl::CancelledError("the shard is not wanted any more");
    }
    RETURN_IF_ERROR(AppendTensor(tensor, GetData(tensor), file.get()));
  }
  if (on_read_ != nullptr) on_read_();
  ASSIGN_OR_RETURN(const BlockChecksums checksums, file->Finish());
  shard->set_bytes(checksums.file_bytes());
  shard->set_crc32c(checksums.file_crc32c());
  *sidecar = checksums.Encode();
  return absl::OkStatus();
}

const char* ShardWriter::GetData(const Tensor& tensor) {
  if (tensor.data_of == nullptr) return tensor.data;
  const Bucket& bucket = buckets_[tensor.bucket];
  if (open_bucket_ != tensor.bucket) {
    open_bucket_ = tensor.bucket;
    open_rows_ = bucket.read();
    CHECK(open_rows_->keys.size() == bucket.num_rows &&
          open_rows_->counted_keys.size() == bucket.num_counted)
        << tensor.name << " has other numbers of rows than before";
  }
  return static_cast<const char*>(tensor.data_of(*open_rows_));
}

absl::Status ShardWriter::AppendTensor(const Tensor& tensor, const char* data,
                                       ChecksummedFileWriter* file) {
  if (tensor.stride == tensor.row_bytes) return file->Append({data, tensor.bytes()});
  const uint64_t rows_at_once = std::max<uint64_t>(kGatheredBytes / tensor.row_bytes, 1);
  for (uint64_t begin = 0; begin < tensor.num_rows; begin += rows_at_once) {
    const uint64_t n = std::min(rows_at_once, tensor.num_rows - begin);
    gathered_.resize(n * tensor.row_bytes);
    for (uint64_t r = 0; r < n; ++r) {
      std::memcpy(&gathered_[r * tensor.row_bytes], data + (begin + r) * tensor.stride,
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
  shard->set_sidecar_crc32c(SidecarChecksum(contents));
  return absl::OkStatus();
}

}  // namespace shoal
