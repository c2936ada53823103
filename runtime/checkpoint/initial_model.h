// The initial values of a run that starts from an existing model (init_from, init_map, init_state).
#ifndef SHOAL_RUNTIME_CHECKPOINT_INITIAL_MODEL_H_
#define SHOAL_RUNTIME_CHECKPOINT_INITIAL_MODEL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/variables/initial_values.h"
#include "runtime/variables/slice_source.h"

namespace shoal {

class FileSystem;
class GivenTensors;

namespace v1 {
class RunConfig;
class VariableSpec;
}  // namespace v1

// Returns the file or directory that init_from refers to: the newest valid checkpoint if it is the
// directory of a run, otherwise the path itself. The result is valid as long as nothing is removed.
// FailedPrecondition names init_from; an error of the file system that may pass keeps its code.
absl::StatusOr<std::string> ResolveInitFrom(FileSystem& file_system, const std::string& path);

// Returns the path of the file with the initial values that have this fingerprint, which a worker
// with a compute program writes. The name follows from the content, so the file never changes.
std::string InitialValuesPath(const std::string& run_directory, uint64_t fingerprint);

// Removes the files of InitialValuesPath, complete and incomplete ones. Call it once the run has a
// checkpoint, because it resumes from that and not from these files.
absl::Status RemoveInitialValues(FileSystem& file_system, const std::string& run_directory);

// The source of version 0. Each slice comes from the tensor to which its variable is mapped, or
// from the variable's initializer if the map has no entry for it. The values do not depend on the
// number of ps. Not thread-safe.
class InitialModel : public SliceSource {
 public:
  // SliceStore::slot_names
  using SlotNames = std::function<std::vector<std::string>(uint32_t slice)>;

  // Borrows specs and table. FailedPrecondition names init_from or init_state, and the first
  // variable that the file lacks or has in another shape or type or with the slots of another rule,
  // or what is wrong with the file. An error of the file system that may pass keeps its code, also
  // in the two functions below. With init_state these need the names of slots.
  static absl::StatusOr<std::unique_ptr<InitialModel>> Open(
      FileSystem& file_system, const v1::RunConfig& run,
      absl::Span<const v1::VariableSpec> variables, const SliceTable& table,
      SlotNames slot_names = nullptr);
  ~InitialModel() override;

  // DataLoss: a value is not finite.
  absl::Status Fill(uint32_t slice, Contents* contents) override;
  // Takes the values of a checkpoint's table, which may have another number of buckets. Slots get
  // their initial values. With init_state it takes slots and counts too, and how long rows and
  // counts were idle; those that have expired by the table's settings are left out. If the numbers
  // of buckets differ, call it for the buckets of a table in rising order: it then reads each of
  // the checkpoint's buckets once, and keeps one of them.
  absl::Status FillBucket(uint32_t slice, BucketContents* contents) override;

  // Returns how many variables start from the file.
  size_t num_given() const;

 private:
  InitialModel(absl::Span<const v1::VariableSpec> variables, const SliceTable& table, uint64_t seed,
               std::unique_ptr<GivenTensors> tensors, bool takes_state, SlotNames slot_names);
  absl::Status FillSlots(uint32_t slice, const std::string& name, Contents* contents);
  // Returns the keys of a bucket that table `name` of the file has, rising, with their values,
  // these slots, and counts.
  absl::StatusOr<BucketRows> ReadRows(uint32_t slice, const std::string& name,
                                      absl::Span<const RowSlot> slots);
  // Returns a bucket of the file. Valid until the next call. The slots of a table are always the
  // same.
  absl::StatusOr<const BucketRows*> ReadSavedBucket(const std::string& name, uint32_t bucket,
                                                    absl::Span<const RowSlot> slots);

  InitialValues initial_;
  const absl::Span<const v1::VariableSpec> variables_;
  const SliceTable& table_;
  const std::unique_ptr<GivenTensors> tensors_;
  const bool takes_state_;
  const SlotNames slot_names_;
  // The name of the tensor of each variable; empty: the variable has its initializer.
  std::vector<std::string> source_;
  // The bucket that ReadSavedBucket has read last; the name is empty if there is none.
  std::string saved_name_;
  uint32_t saved_bucket_ = 0;
  BucketRows saved_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_INITIAL_MODEL_H_
