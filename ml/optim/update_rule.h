#ifndef SHOAL_ML_OPTIM_UPDATE_RULE_H_
#define SHOAL_ML_OPTIM_UPDATE_RULE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/optim/optimizer_options.h"

namespace shoal {

// One slot of an update rule. It has as many elements as the variable, all of which start as
// `initial_value`.
struct SlotSpec {
  std::string name;
  float initial_value = 0;
};

inline constexpr int kMaxSlots = 3;

// One application of a rule to a range of n elements. All memory is borrowed. An output may be the
// same pointer as its input; otherwise no two ranges may overlap.
struct UpdateStep {
  int64_t step = 1;         // the number t of this update in the formulas, from 1
  float learning_rate = 0;  // finite, >= 0
  // The gradient is first multiplied by this factor: a clipping scale, or 1/weight.
  float gradient_scale = 1;
  // Then each element is clipped to [-limit, limit]; 0: no clipping by value. The l2_decay of the
  // options is added last.
  float gradient_limit = 0;
  const float* value = nullptr;
  const float* gradient = nullptr;
  float* new_value = nullptr;
  const float* slots[kMaxSlots] = {};  // ordered as UpdateRule::slots()
  float* new_slots[kMaxSlots] = {};
  size_t n = 0;
};

// The vector instructions that an update uses. The results have the same bits with all of them.
enum class UpdateIsa { kBaseline, kAvx2, kAvx512 };
UpdateIsa DetectUpdateIsa();

namespace internal {
struct UpdateScalars;
}

// An update rule computes the new value of a variable and of its slots from a gradient.
// optimizer_options.h has the formulas and defaults.
//
// A rule works on each element separately, in one pass over memory, with basic IEEE operations. So
// the result has the same bits for every division of a variable into ranges, on every x86 machine
// and with every compiler. Immutable: any number of threads may use one rule at once. Apply does
// not allocate.
class UpdateRule {
 public:
  static absl::StatusOr<std::unique_ptr<UpdateRule>> Create(const OptimizerOptions& options,
                                                            UpdateIsa isa = DetectUpdateIsa());

  const OptimizerOptions& options() const { return options_; }
  const std::vector<SlotSpec>& slots() const { return slots_; }

  void Apply(const UpdateStep& step) const;

 private:
  using Loop = void (*)(const internal::UpdateScalars&, const UpdateStep&);

  UpdateRule(const OptimizerOptions& options, Loop loop, UpdateIsa isa);
  void ApplyWithL2Decay(const UpdateStep& step) const;

  const OptimizerOptions options_;
  const std::vector<SlotSpec> slots_;
  const Loop loop_;
  const UpdateIsa isa_;
};

// Computes average' = decay * average + (1 - decay) * value for each element, with the same bits on
// every machine, like an UpdateRule. It is used for the moving statistics of batch normalization
// and for the exponential moving averages of variables. `new_average` may be `average`. Immutable.
class MovingAverage {
 public:
  // Returns InvalidArgument unless decay is in [0, 1].
  static absl::StatusOr<MovingAverage> Create(double decay);

  double decay() const { return decay_; }
  void Apply(const float* average, const float* value, float* new_average, size_t n) const;

 private:
  explicit MovingAverage(double decay);

  double decay_;
  void (*loop_)(float, float, const float*, const float*, float*, size_t);
};

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_UPDATE_RULE_H_
