// Saves a small run as a checkpoint and verifies it, for tests.
#ifndef SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_TESTING_H_
#define SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_TESTING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "base/file_system.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/shard_base.h"
#include "runtime/plan/slice_table.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {

inline constexpr uint64_t kTestSliceBytes = 64;

// Returns three variables: one of several slices, one of a single slice, and a scalar.
std::vector<v1::VariableSpec> TestVariables();

// TestTable returns a fourth variable, for SaveOptions.with_table: a table of three buckets, with
// two floats in a row. TestRows returns the rows of one of its buckets at a step. The table has the
// keys 0 to 39 except the key `step`; the value of key k is {10 * k + step, 10 * k + step + 1},
// each slot is the value + 0.5, and it was touched last in version min(k + 1, step). Key 50 was
// counted once and has no row.
v1::VariableSpec TestTable();
BucketRows TestRows(const SliceTable& table, uint32_t slice, uint64_t step, size_t num_slots);

// Returns the value of a variable's element, or of its slot, at a step. No two of them are equal.
float TestValue(uint32_t variable, uint64_t element, const std::string& slot, uint64_t step);

struct SaveOptions {
  uint64_t step = 1;
  uint64_t term = 1;
  uint32_t num_ps = 2;
  std::vector<std::string> slots = {"m", "v"};
  bool with_table = false;
  bool asynchronous = false;     // Each slice has its own version and applied set.
  bool again = false;            // An earlier attempt to save it may have begun it.
  std::vector<ShardBase> bases;  // Each shard names these as its bases.
  std::string optimizer;         // The rule that the manifest names.
};

CheckpointName TestName(const SaveOptions& options);

// Makes a checkpoint as a run does: begins it, writes the shard of every ps, publishes it.
absl::Status SaveTestRun(FileSystem& file_system, const std::string& root,
                         const SaveOptions& options);

// Returns OK if every value in the checkpoint is the saved one.
absl::Status VerifyTestRun(Checkpoint& checkpoint, const SaveOptions& options);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_CHECKPOINT_TESTING_H_
