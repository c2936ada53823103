#ifndef SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_H_
#define SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "base/file_system.h"
#include "proto/v1/checkpoint.pb.h"
#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/shard_reader.h"
#include "runtime/checkpoint/slice_state.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {

// The slot of a variable's exponential moving average.
inline constexpr char kAverageSlot[] = "average";

// The kind of a variable's values to read.
enum class VariableValues {
  kCurrent,
  kAverages,  // the exponential moving average of each variable that has one, else its value
};

// A checkpoint opened for reading. Slices are addressed by variable and number, so any number of ps
// can read their slices, no matter how many ps wrote the checkpoint. Not thread-safe.
class Checkpoint {
 public:
  enum class Verify {
    // Manifest, sidecars, headers and sizes are checked now, values when they are read.
    kIndex,
    kEverything,  // Every byte of every shard is checked now, too.
  };

  // Opens the checkpoint in `directory`. DataLoss names the file and the defect: a shard is
  // missing, truncated or damaged, or a slice is missing, duplicate or of another size.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(FileSystem& file_system,
                                                          const std::string& directory,
                                                          Verify verify);

  // Makes the checks of Open with kIndex, for a manifest that is not written yet.
  static absl::Status CheckShards(FileSystem& file_system, const std::string& directory,
                                  const v1::Manifest& manifest);

  const std::string& directory() const { return directory_; }
  const v1::Manifest& manifest() const { return manifest_; }
  // The division of the checkpoint's variables into slices.
  const SliceTable& slices() const { return slices_; }

  const v1::VariableSpec& variable_of(uint32_t slice) const {
    return manifest_.variables(static_cast<int>(slices_[slice].variable));
  }

  // The names of the directories, beside this one, whose shards have rows of this checkpoint.
  const std::set<std::string>& bases() const { return bases_; }

  // The state of the slice with this number in slices().
  const SavedSliceState& state(uint32_t slice) const { return stored_[slice].state; }
  bool HasSlot(uint32_t slice, const std::string& slot) const;
  // Reads elements [first, first + out.size()) of the slice's value (slot "") or slot. Returns
  // NotFound if the slot does not exist.
  absl::Status Read(uint32_t slice, const std::string& slot, uint64_t first, absl::Span<float> out);

  // Reads a bucket of a table, with these slots in this order. Returns NotFound if its rows do not
  // have one of them, or have it in another width.
  absl::StatusOr<BucketRows> ReadBucket(uint32_t slice, absl::Span<const RowSlot> slots);
  // Returns the slots of a bucket's rows in the order of their names; none if it has no rows.
  std::vector<RowSlot> GetRowSlots(uint32_t slice) const;

  // Returns whether any variable has an average: the run had optimizer.moving_average_decay.
  bool HasAverages() const;
  // Fills `out` with the slice's value, or its average; `out` has the slice's size.
  absl::Status ReadValues(uint32_t slice, VariableValues values, absl::Span<float> out);

 private:
  using Tensors = std::map<std::string, ShardReader::Entry>;  // keyed by slot; "" is the value
  struct Layer {
    ShardReader* shard = nullptr;
    Tensors tensors;
  };
  struct StoredSlice {
    ShardReader* shard = nullptr;
    SavedSliceState state;
    Tensors tensors;
    // If `tensors` are changes of a bucket: what they change, from the shard with all rows on.
    std::vector<Layer> bases;
  };

  static absl::StatusOr<std::unique_ptr<Checkpoint>> OpenShards(FileSystem& file_system,
                                                                const std::string& directory,
                                                                v1::Manifest manifest,
                                                                Verify verify);
  Checkpoint(std::string directory, v1::Manifest manifest, SliceTable slices);
  absl::Status Index(ShardReader& shard);
  bool Fits(uint32_t slice, const std::string& part, const ShardReader::Entry& entry) const;
  absl::Status CheckComplete() const;
  absl::Status CheckBucket(uint32_t slice, const Tensors& tensors) const;
  // Opens the bases of a shard with buckets, if it has any, and indexes them.
  absl::Status AddBases(FileSystem& file_system, const ShardReader& shard, Verify verify);
  absl::Status IndexBase(const ShardReader& shard, ShardReader& base);
  absl::StatusOr<BucketRows> ReadRows(uint32_t slice, ShardReader& shard, const Tensors& tensors,
                                      absl::Span<const RowSlot> slots) const;
  SliceName GetSliceName(uint32_t slice) const;

  const std::string directory_;
  const v1::Manifest manifest_;
  const SliceTable slices_;
  std::vector<std::unique_ptr<ShardReader>> shards_;
  std::map<std::string, uint32_t> variables_;  // keyed by name
  std::vector<StoredSlice> stored_;            // indexed by slice
  std::set<std::string> bases_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_H_
