#include "runtime/plan/step_plan.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "proto/v1/checkpoint.pb.h"

namespace shoal {
namespace {

constexpr uint64_t kMaxExamples = uint64_t{1} << 48;
constexpr uint32_t kMaxBatchesInStep = 1u << 24;

uint64_t DivideUp(uint64_t a, uint64_t b) { return (a + b - 1) / b; }

}  // namespace

absl::StatusOr<StepPlan> StepPlan::Create(const Options& options) {
  if (options.examples_per_epoch == 0 || options.examples_per_epoch > kMaxExamples) {
    return absl::InvalidArgumentError(
        absl::StrCat("examples_per_epoch is ", options.examples_per_epoch,
                     ": the training data must have 1 to 2^48 examples"));
  }
  if (options.batch_examples == 0) {
    return absl::InvalidArgumentError(
        "batch_examples is 0: batch_size and num_clones must be at least 1");
  }
  if (options.replicas_to_aggregate == 0 || options.replicas_to_aggregate > kMaxBatchesInStep) {
    return absl::InvalidArgumentError(absl::StrCat(
        "replicas_to_aggregate is ", options.replicas_to_aggregate, ": it must be 1 to 2^24"));
  }
  return StepPlan(options);
}

absl::StatusOr<StepPlan> StepPlan::FromProto(const v1::StepPlan& proto) {
  Options options;
  options.base_step = proto.base_step();
  options.base_epoch = proto.base_epoch();
  options.examples_per_epoch = proto.examples_per_epoch();
  options.batch_examples = proto.batch_examples();
  options.replicas_to_aggregate = proto.replicas_to_aggregate();
  return Create(options);
}

void StepPlan::ToProto(v1::StepPlan* proto) const {
  proto->set_base_step(options_.base_step);
  proto->set_base_epoch(options_.base_epoch);
  proto->set_examples_per_epoch(options_.examples_per_epoch);
  proto->set_batch_examples(options_.batch_examples);
  proto->set_replicas_to_aggregate(options_.replicas_to_aggregate);
}

StepPlan::StepPlan(const Options& options)
    : options_(options),
      batches_per_epoch_(DivideUp(options.examples_per_epoch, options.batch_examples)),
      steps_per_epoch_(DivideUp(batches_per_epoch_, options.replicas_to_aggregate)) {}

StepPlan::Step StepPlan::At(uint64_t step) const {
  const uint64_t since_base = step - options_.base_step;
  const uint64_t step_in_epoch = since_base % steps_per_epoch_;
  Step result;
  result.epoch = options_.base_epoch + static_cast<uint32_t>(since_base / steps_per_epoch_);
  result.first_batch = step_in_epoch * options_.replicas_to_aggregate;
  result.num_batches = static_cast<uint32_t>(
      std::min<uint64_t>(options_.replicas_to_aggregate, batches_per_epoch_ - result.first_batch));
  return result;
}

BatchKey StepPlan::BatchAt(uint64_t step, uint32_t position) const {
  const Step at = At(step);
  return {at.epoch, at.first_batch + position};
}

StepPlan::Place StepPlan::FindPlace(const BatchKey& batch) const {
  return {FirstStepOf(batch.epoch) + batch.index / options_.replicas_to_aggregate,
          static_cast<uint32_t>(batch.index % options_.replicas_to_aggregate)};
}

uint32_t StepPlan::ExamplesIn(const BatchKey& batch) const {
  return static_cast<uint32_t>(std::min<uint64_t>(
      options_.batch_examples, options_.examples_per_epoch - FirstExampleOf(batch)));
}

uint64_t StepPlan::FirstStepOf(uint32_t epoch) const {
  return options_.base_step + (epoch - options_.base_epoch) * steps_per_epoch_;
}

bool StepPlan::IsEpochStart(uint64_t version) const {
  return Covers(version) && (version - options_.base_step) % steps_per_epoch_ == 0;
}

uint64_t StepPlan::LastStep(uint64_t max_steps, uint32_t num_epochs) const {
  uint64_t last = max_steps == 0 ? UINT64_MAX : max_steps;
  if (num_epochs != 0) {
    // Fewer epochs than are already behind the plan's base: the run is at its end.
    last = std::min(
        last, num_epochs < options_.base_epoch ? options_.base_step : FirstStepOf(num_epochs));
  }
  return last;
}

bool VersionSchedule::Contains(const StepPlan& plan, uint64_t version) const {
  if (version == 0) return false;
  if (version == last_step) return true;
  return every == 0 ? plan.IsEpochStart(version) : version % every == 0;
}

}  // namespace shoal
