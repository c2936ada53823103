#ifndef SHOAL_RUNTIME_CHECKPOINT_SHARD_WRITER_H_
#define SHOAL_RUNTIME_CHECKPOINT_SHARD_WRITER_H_

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "proto/v1/checkpoint.pb.h"
#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/shard_base.h"
#include "runtime/checkpoint/slice_state.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {

class ChecksummedFileWriter;

// Writes the slices of one ps at one cut as a safetensors file with a sidecar of block checksums.
//
// The writer collects references to the slices' memory, which must not change until Finish has
// returned. It writes nothing before Finish, so slices can be added when they reach the cut. The
// rows of buckets are read while the file is written, one bucket at a time. Not thread-safe.
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

  // A bucket of a table.
  struct Bucket {
    std::string table;
    uint32_t index = 0;
    uint64_t dim = 0;            // floats of a value in BucketRows::rows
    std::vector<RowSlot> slots;  // those that follow each value, in this order
    uint64_t num_rows = 0;
    uint64_t num_counted = 0;
    // Returns the rows, which stay until the next call for any bucket. Finish calls it once.
    std::function<const BucketRows*()> read;
  };
  void AddBucket(Bucket bucket, const SavedSliceState& state);

  // The rows of all buckets are those that changed since the last of these shards. The first has
  // all rows, and each of the others what changed since the one before it.
  void SetBases(absl::Span<const ShardBase> bases) {
    metadata_[kShardBasesKey] = EncodeShardBases(bases);
  }

  // Finish asks between tensors whether to stop.
  void StopIf(std::function<bool()> should_stop) { should_stop_ = std::move(should_stop); }

  // Finish calls it when it has read all that was added, before it waits for the disk to have it.
  void OnRead(std::function<void()> on_read) { on_read_ = std::move(on_read); }

  // Returns about how many bytes Finish will need on the disk.
  uint64_t expected_bytes() const;

  // Writes, syncs and renames both files and syncs the directory, so that they survive a crash.
  // Errors are ResourceExhausted (disk full), FailedPrecondition (so many tensors that readers
  // would refuse the header; nothing was written), AlreadyExists (another process wrote this shard
  // with other contents), Cancelled (see StopIf), and others of the disk. After an error the files
  // must not be used, and another ShardWriter may write them again.
  absl::StatusOr<v1::ShardFile> Finish();

 private:
  // A tensor to write: `num_rows` pieces of `row_bytes` bytes. Each begins `stride` bytes after the
  // beginning of the one before.
  struct Tensor {
    std::string name;
    const char* dtype = "";  // written as in safetensors
    std::vector<uint64_t> shape;
    const char* data = nullptr;
    uint64_t num_rows = 1;
    uint64_t row_bytes = 0;
    uint64_t stride = 0;
    // These two replace `data` for a part of a bucket.
    size_t bucket = SIZE_MAX;  // in buckets_
    std::function<const void*(const BucketRows&)> data_of;

    uint64_t bytes() const { return num_rows * row_bytes; }
  };

  void AddVector(std::string name, absl::Span<const float> data);
  // Adds a part of the newest bucket: a matrix of floats, or a vector (row_floats 0).
  void AddPart(const char* part, const char* dtype, uint64_t num_rows, uint64_t element_bytes,
               uint64_t row_floats, std::function<const void*(const BucketRows&)> data_of);
  // Returns the tensor's first byte, which stays until the next call.
  const char* GetData(const Tensor& tensor);
  absl::Status AppendTensor(const Tensor& tensor, const char* data, ChecksummedFileWriter* file);
  absl::Status WriteTensors(const std::string& name, v1::ShardFile* shard, std::string* sidecar);
  absl::Status WriteSidecar(const std::string& contents, v1::ShardFile* shard);

  FileSystem& file_system_;
  const Options options_;
  std::vector<Tensor> tensors_;
  std::vector<Bucket> buckets_;
  // The bucket whose parts are being written, and its rows.
  size_t open_bucket_ = SIZE_MAX;
  const BucketRows* open_rows_ = nullptr;
  std::map<std::string, std::string> metadata_;
  std::function<bool()> should_stop_;  // may be null, as may the next
  std::function<void()> on_read_;
  std::string gathered_;  // pieces of a tensor that do not follow each other in memory
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SHARD_WRITER_H_
