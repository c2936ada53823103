#ifndef SHOAL_RUNTIME_CHECKPOINT_SHARD_WRITER_H_
#define SHOAL_RUNTIME_CHECKPOINT_SHARD_WRITER_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "proto/v1/checkpoint.pb.h"
#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/shard_base.h"
#include "runtime/checkpoint/slice_state.h"
#include "runtime/variables/bucket_rows.h"

namespace shoal {

class ChecksummedFileWriter;

// Writes the slices of one ps at one cut as a safetensors file with a sidecar of block checksums.
//
// The writer collects references to the slices' memory, which must not change until Finish has
// returned. It writes nothing before Finish, so slices can be added when they reach the cut. Not
// thread-safe.
class ShardWriter {
 public:
  struct Options {
    std::string directory;  // the checkpoint's directory, which must exist
    uint32_t shard = 0;     // the index of this shard, below num_shards
    uint32_t num_shards = 1;
  };

  // The file system must outlive the writer.
  ShardWriter(FileSystem& file_system, const Options& options);

  // A slot of one slice.
  struct Slot {
    std::string name;
    absl::Span<const float> data;
  };
  // Adds one slice of a variable, with its slots in any order.
  void Add(const std::string& variable, uint32_t slice_index, absl::Span<const float> value,
           absl::Span<const Slot> slots, const SavedSliceState& state);
  // Adds a bucket of a table. Each of `rows.rows` is a value of `dim` floats, then the slots in
  // this order.
  void AddBucket(const std::string& table, uint32_t bucket, uint64_t dim,
                 absl::Span<const RowSlot> slots, const BucketRows& rows,
                 const SavedSliceState& state);

  // The rows of all buckets are those that changed since this shard.
  void SetBase(const ShardBase& base) { metadata_[kShardBaseKey] = EncodeShardBase(base); }

  // Returns about how many bytes Finish will need on the disk.
  uint64_t expected_bytes() const;

  // Writes, syncs and renames both files and syncs the directory, so that they survive a crash.
  // After an error the shard must not be used. Errors are ResourceExhausted (disk full),
  // AlreadyExists (another process wrote this shard with other contents), and others of the disk.
  // After an error the same shard may be written again by another writer.
  absl::StatusOr<v1::ShardFile> Finish();

 private:
  // `num_rows` pieces of `row_bytes`, each `stride` after the one before.
  struct Tensor {
    std::string name;
    const char* dtype = "";  // in the notation of safetensors
    std::vector<uint64_t> shape;
    const char* data = nullptr;
    uint64_t num_rows = 1;
    uint64_t row_bytes = 0;
    uint64_t stride = 0;

    uint64_t bytes() const { return num_rows * row_bytes; }
  };

  template <typename T>
  void AddVector(std::string name, absl::Span<const T> data);
  absl::Status AppendTensor(const Tensor& tensor, ChecksummedFileWriter* file);
  absl::Status WriteTensors(const std::string& name, v1::ShardFile* shard, std::string* sidecar);
  absl::Status WriteSidecar(const std::string& contents, v1::ShardFile* shard);

  FileSystem& file_system_;
  const Options options_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
  std::string gathered_;  // pieces of a tensor that do not follow each other in memory
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SHARD_WRITER_H_
