#ifndef SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_SLICE_SOURCE_H_
#define SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_SLICE_SOURCE_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "runtime/checkpoint/checkpoint.h"
#include "runtime/plan/slice_table.h"
#include "runtime/variables/slice_source.h"

namespace shoal {

namespace v1 {
class VariableSpec;
}

// Fills the slices of a run from a checkpoint. The run may have another number of ps. It may also
// have another slice_bytes, if the checkpoint is of a synchronous run and all its slices of a
// variable have the same version.
class CheckpointSliceSource : public SliceSource {
 public:
  using SlotNames = std::function<std::vector<std::string>(uint32_t slice)>;

  // The checkpoint and `table` must outlive the source. `slot_names` returns the slots that a slice
  // of the run has. FailedPrecondition names the first variable that the checkpoint lacks or has
  // with another shape, or a table that has another number of buckets.
  static absl::StatusOr<CheckpointSliceSource> Create(Checkpoint& checkpoint,
                                                      absl::Span<const v1::VariableSpec> variables,
                                                      const SliceTable& table,
                                                      SlotNames slot_names);

  // Returns FailedPrecondition if the checkpoint lacks a slot (it was made with another optimizer),
  // or if its slices differ from the run's and cannot be divided anew (see above); DataLoss if it
  // is damaged. A moving average that was not stored starts from the value.
  absl::Status Fill(uint32_t slice, Contents* contents) override;
  // Returns the same errors.
  absl::Status FillBucket(uint32_t slice, BucketContents* contents) override;

 private:
  CheckpointSliceSource(Checkpoint& checkpoint, const SliceTable& table, SlotNames slot_names,
                        std::vector<uint32_t> saved_variables, std::vector<bool> rowwise);
  absl::Status FillState(uint32_t slice, uint32_t first_saved, uint32_t end_saved,
                         Contents* contents) const;
  absl::Status FillTensor(uint32_t slice, const std::string& slot, absl::Span<float> out);

  Checkpoint* checkpoint_;
  const SliceTable* table_;
  SlotNames slot_names_;
  // Indexed by variable of the run: the variable's number in the checkpoint.
  std::vector<uint32_t> saved_variables_;
  std::vector<bool> rowwise_;  // TableSpec.rowwise, indexed by variable of the run
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_SLICE_SOURCE_H_
