// A small run to save and to find again: for tests of checkpoints.
#ifndef SHOAL_RUNTIME_CHECKPOINT_SAVED_RUN_H_
#define SHOAL_RUNTIME_CHECKPOINT_SAVED_RUN_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "base/file_system.h"
#include "proto/v1/variable.pb.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/plan/slice_table.h"

namespace shoal {

inline constexpr uint64_t kTestSliceBytes = 64;

// Three variables: of several slices, of one, a scalar.
std::vector<v1::VariableSpec> TestVariables();

// The number that a variable's element or slot has at a step; different ones differ.
float TestValue(uint32_t variable, uint64_t element, const std::string& slot, uint64_t step);

struct SaveOptions {
  uint64_t step = 1;
  uint64_t term = 1;
  uint32_t num_ps = 2;
  std::vector<std::string> slots = {"m", "v"};
  bool asynchronous = false;  // slices at versions of their own, with applied sets
};

CheckpointName TestName(const SaveOptions& options);

// All a run does to make a checkpoint: begin, every ps's shard, publish.
absl::Status SaveTestRun(FileSystem& file_system, const std::string& root,
                         const SaveOptions& options);

// OK if every number of the checkpoint is the saved one.
absl::Status VerifyTestRun(Checkpoint& checkpoint, const SaveOptions& options);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CHECKPOINT_SAVED_RUN_H_
