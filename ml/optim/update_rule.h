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

// One optimizer state of a variable: as long as the variable, every element starts as
// `initial_value`.
struct SlotSpec {
  std::string name;
  float initial_value = 0;
};

inline constexpr int kMaxSlots = 3;

// One application of a rule to a range of elements: version s in, version s+1 out. An output may be
// the same pointer as its input (in place); otherwise no two ranges overlap.
struct UpdateStep {
  int64_t step = 1;          // the optimizer's time t of this update, from 1
  float learning_rate = 0;   // finite, >= 0
  float gradient_scale = 1;  // multiplies the gradient first: a clipping scale, or 1/weight
  float gradient_limit = 0;  // then clips each element to [-limit, limit]; 0 = no clipping by value
  const float* value = nullptr;
  const float* gradient = nullptr;
  float* new_value = nullptr;
  const float* slots[kMaxSlots] = {};  // in the order of UpdateRule::slots()
  float* new_slots[kMaxSlots] = {};
  size_t n = 0;
};

// The set of vector instructions that an update runs with. The results are the same bits with each.
enum class UpdateIsa { kBaseline, kAvx2, kAvx512 };
UpdateIsa DetectUpdateIsa();

namespace internal {
struct UpdateScalars;
}

// An update rule: how a variable and its slots follow from a gradient. Formulas and defaults are in
// optimizer_options.h.
//
// Strictly elementwise, one fused pass over memory, plain IEEE operations: cutting a variable into
// any ranges, or running on another x86 machine or compiler, gives the same bits. Immutable, so one
// rule serves any number of threads at once. Apply does not allocate.
class UpdateRule {
 public:
  static absl::StatusOr<std::unique_ptr<UpdateRule>> Create(const OptimizerOptions& options,
                                                            UpdateIsa isa = DetectUpdateIsa());

  const OptimizerOptions& options() const { return options_; }
  const std::vector<SlotSpec>& slots() const { return slots_; }

  void Apply(const UpdateStep& step) const;

 private:
  using Loop = void (*)(const internal::UpdateScalars&, const UpdateStep&);

  UpdateRule(const OptimizerOptions& options, Loop loop);

  const OptimizerOptions options_;
  const std::vector<SlotSpec> slots_;
  const Loop loop_;
};

// average' = decay*average + (1-decay)*value, elementwise, as portable as an UpdateRule: the moving
// statistics of batch normalization and the exponential moving average of variables. `new_average`
// may be `average`.
class MovingAverage {
 public:
  // decay in [0, 1].
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
