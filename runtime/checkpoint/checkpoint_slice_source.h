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

// Slices of a run filled from a checkpoint. The run may have another number of ps, and cut its
// variables by another slice_bytes where all slices of a variable are of one version.
class CheckpointSliceSource : public SliceSource {
 public:
  using SlotNames = std::function<std::vector<std::string>(uint32_t slice)>;

  // The checkpoint must outlive the source. FailedPrecondition names the first variable that the
  // checkpoint lacks, or has in another shape.
  static absl::StatusOr<CheckpointSliceSource> Create(Checkpoint& checkpoint,
                                                      absl::Span<const v1::VariableSpec> variables,
                                                      const SliceTable& table,
                                                      SlotNames slot_names);

  // FailedPrecondition: the checkpoint lacks a slot (it was made with another optimizer), or
  // versions differ where the cut does. DataLoss: damaged. A moving average that was not kept
  // follows the value.
  absl::Status Fill(uint32_t slice, Contents* contents) override;

 private:
  CheckpointSliceSource(Checkpoint& checkpoint, const SliceTable& table, SlotNames slot_names,
                        std::vector<uint32_t> saved_variables);
  absl::Status FillState(uint32_t slice, uint32_t first_saved, uint32_t end_saved,
                         Contents* contents) const;
  absl::Status FillTensor(uint32_t slice, const std::string& slot, absl::Span<float> out);

  Checkpoint* checkpoint_;
  const SliceTable* table_;
  SlotNames slot_names_;
  std::vector<uint32_t> saved_variables_;  // by variable of the run: its number in the checkpoint
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_SLICE_SOURCE_H_
