#ifndef SHOAL_RUNTIME_PLAN_STEP_PLAN_H_
#define SHOAL_RUNTIME_PLAN_STEP_PLAN_H_

#include <cstdint>

#include "absl/status/statusor.h"

#include "runtime/plan/batch_key.h"

namespace shoal {

namespace v1 {
class StepPlan;
}

// Defines the batches of every step, so that all tasks know them in advance. Step s makes version
// s+1 from version s and aggregates `replicas_to_aggregate` consecutive batches of its epoch; the
// last step of an epoch aggregates the remaining ones. The plan is a pure function and applies from
// the start of an epoch (`base_step`, `base_epoch`). In ASYNC a step is one batch.
//
//   batches per epoch = ceil(examples_per_epoch / batch_examples)
//   steps per epoch = ceil(batches per epoch / R)
class StepPlan {
 public:
  struct Options {
    uint64_t base_step = 0;
    uint32_t base_epoch = 0;
    uint64_t examples_per_epoch = 0;
    // A whole replica batch: num_clones x batch_size or replica_batch_size. The last batch of an
    // epoch may be smaller.
    uint32_t batch_examples = 0;
    uint32_t replicas_to_aggregate = 1;  // R
  };

  struct Step {
    uint32_t epoch = 0;
    uint64_t first_batch = 0;  // index of position 0
    uint32_t num_batches = 0;  // R_s >= 1
  };

  struct Place {
    uint64_t step = 0;
    uint32_t position = 0;
  };

  // InvalidArgument names the field that is zero or too large (a step has at most 2^24 batches).
  static absl::StatusOr<StepPlan> Create(const Options& options);
  static absl::StatusOr<StepPlan> FromProto(const v1::StepPlan& proto);
  void ToProto(v1::StepPlan* proto) const;

  const Options& options() const { return options_; }
  uint64_t batches_per_epoch() const { return batches_per_epoch_; }
  uint64_t steps_per_epoch() const { return steps_per_epoch_; }
  uint32_t replicas_to_aggregate() const { return options_.replicas_to_aggregate; }

  // Returns whether the step is at or after the plan's base. The functions below require such steps
  // and epochs.
  bool Covers(uint64_t step) const { return step >= options_.base_step; }
  bool Covers(const BatchKey& batch) const {
    return batch.epoch >= options_.base_epoch && batch.index < batches_per_epoch_;
  }

  Step At(uint64_t step) const;
  BatchKey BatchAt(uint64_t step, uint32_t position) const;
  Place FindPlace(const BatchKey& batch) const;
  uint32_t ExamplesIn(const BatchKey& batch) const;
  uint64_t FirstExampleOf(const BatchKey& batch) const {
    return batch.index * options_.batch_examples;
  }

  // The version at which the epoch starts. For the epoch after the last one it is the end of the
  // run.
  uint64_t FirstStepOf(uint32_t epoch) const;
  bool IsEpochStart(uint64_t version) const;

  // The version at which a run ends: max_steps, or the end of num_epochs epochs, whichever comes
  // first. 0 means no such limit; UINT64_MAX is returned if there is none.
  uint64_t LastStep(uint64_t max_steps, uint32_t num_epochs) const;

 private:
  explicit StepPlan(const Options& options);

  Options options_;
  uint64_t batches_per_epoch_;
  uint64_t steps_per_epoch_;
};

// A schedule of versions: every `every` steps, or every epoch's start if `every` is 0, and
// `last_step`. Version 0 is never part of it.
struct VersionSchedule {
  uint64_t every = 0;
  uint64_t last_step = UINT64_MAX;

  bool Contains(const StepPlan& plan, uint64_t version) const;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PLAN_STEP_PLAN_H_
