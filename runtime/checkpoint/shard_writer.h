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
#include "runtime/checkpoint/slice_state.h"

namespace shoal {

// The slices of one ps at one cut, as a safetensors file with a sidecar of block checksums.
//
// Collects references to the slices' memory, which must stay unchanged until Finish has returned.
// Nothing is written before Finish, so a writer may be filled while slices reach the cut one by
// one. Not thread safe.
class ShardWriter {
 public:
  struct Options {
    std::string directory;  // of the checkpoint; must exist
    uint32_t shard = 0;     // of num_shards
    uint32_t num_shards = 1;
  };

  // The file system must outlive the writer.
  ShardWriter(FileSystem& file_system, const Options& options);

  // One slice of a variable; slots in any order.
  struct Slot {
    std::string name;
    absl::Span<const float> data;
  };
  void Add(const std::string& variable, uint32_t slice_index, absl::Span<const float> value,
           absl::Span<const Slot> slots, const SavedSliceState& state);

  // Bytes that Finish will need on the disk, about.
  uint64_t expected_bytes() const;

  // Writes, syncs and names both files, and syncs the directory: what it returns survives a crash.
  // After an error nothing of this shard counts and neither file has been named in any manifest.
  // Errors: ResourceExhausted (disk full), AlreadyExists (another wrote this shard of this
  // checkpoint), others of the disk.
  absl::StatusOr<v1::ShardFile> Finish();

 private:
  struct Tensor {
    std::string name;
    absl::Span<const float> data;
  };

  absl::Status WriteTensors(const std::string& name, v1::ShardFile* shard, std::string* sidecar);
  absl::Status WriteSidecar(const std::string& contents, v1::ShardFile* shard);

  FileSystem& file_system_;
  const Options options_;
  std::vector<Tensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SHARD_WRITER_H_
