#include "ml/optim/update_rule.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "ml/optim/portable_math.h"
#include "ml/optim/update_loops.h"

namespace shoal {
namespace internal {

const UpdateLoops& LoopsFor(UpdateIsa isa) {
  switch (isa) {
    case UpdateIsa::kAvx512:
      return Avx512UpdateLoops();
    case UpdateIsa::kAvx2:
      return Avx2UpdateLoops();
    case UpdateIsa::kBaseline:
      break;
  }
  return BaselineUpdateLoops();
}

}  // namespace internal

namespace {

using internal::LoopsFor;
using internal::UpdateLoops;
using internal::UpdateScalars;

// FTRL with an unusual power: one element at a time.
void FtrlAnyPower(const UpdateScalars& c, const UpdateStep& s) {
  for (size_t i = 0; i < s.n; ++i) {
    float g = s.gradient[i] * c.gradient_scale;
    if (g > c.gradient_limit) g = c.gradient_limit;
    if (g < -c.gradient_limit) g = -c.gradient_limit;
    const float a = s.slots[0][i] + g * g;
    const float powered = static_cast<float>(PortablePow(a, c.minus_power));
    const float before = static_cast<float>(PortablePow(s.slots[0][i], c.minus_power));
    const float z = s.slots[1][i] + g - (powered - before) / c.learning_rate * s.value[i];
    const float pull = z > 0 ? c.l1 : -c.l1;
    const float moved = (pull - z) / (powered / c.learning_rate + c.two_l2);
    s.new_value[i] = std::fabs(z) <= c.l1 ? 0.0f : moved;
    s.new_slots[0][i] = a;
    s.new_slots[1][i] = z;
  }
}

void (*LoopFor(const OptimizerOptions& o, UpdateIsa isa))(const UpdateScalars&, const UpdateStep&) {
  const UpdateLoops& loops = LoopsFor(isa);
  switch (o.kind) {
    case OptimizerKind::kSgd:
      return loops.sgd;
    case OptimizerKind::kMomentum:
      return loops.momentum;
    case OptimizerKind::kNesterov:
      return loops.nesterov;
    case OptimizerKind::kAdagrad:
      return loops.adagrad;
    case OptimizerKind::kAdadelta:
      return loops.adadelta;
    case OptimizerKind::kRmsProp:
      return o.rmsprop_centered ? loops.rmsprop_centered : loops.rmsprop;
    case OptimizerKind::kAdam:
      return loops.adam;
    case OptimizerKind::kAdamW:
      return loops.adamw;
    case OptimizerKind::kFtrl:
      return o.ftrl_learning_rate_power == -0.5 ? loops.ftrl : &FtrlAnyPower;
  }
  return nullptr;
}

std::vector<SlotSpec> ListSlots(const OptimizerOptions& o) {
  switch (o.kind) {
    case OptimizerKind::kSgd:
      return {};
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      return {{"momentum", 0}};
    case OptimizerKind::kAdagrad:
      return {{"accumulator", static_cast<float>(o.adagrad_initial_accumulator)}};
    case OptimizerKind::kAdadelta:
      return {{"accumulator", 0}, {"accumulator_update", 0}};
    case OptimizerKind::kRmsProp: {
      std::vector<SlotSpec> slots = {{"rms", 1}, {"momentum", 0}};
      if (o.rmsprop_centered) slots.push_back({"mean_gradient", 0});
      return slots;
    }
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      return {{"m", 0}, {"v", 0}};
    case OptimizerKind::kFtrl:
      return {{"accumulator", static_cast<float>(o.ftrl_initial_accumulator)}, {"linear", 0}};
  }
  return {};
}

void SetDecay(double decay, UpdateScalars& c) {
  c.decay = static_cast<float>(decay);
  c.one_minus_decay = static_cast<float>(1 - decay);
}

void SetAdamScalars(const OptimizerOptions& o, const UpdateStep& s, UpdateScalars& c) {
  SetDecay(o.beta1, c);
  c.decay2 = static_cast<float>(o.beta2);
  c.one_minus_decay2 = static_cast<float>(1 - o.beta2);
  const double root = std::sqrt(1 - PortablePow(o.beta2, s.step));
  c.epsilon = static_cast<float>(o.corrected_epsilon ? o.adam_epsilon * root : o.adam_epsilon);
  const double lr = s.learning_rate;
  c.learning_rate = static_cast<float>(lr * root / (1 - PortablePow(o.beta1, s.step)));
  c.learning_rate_decay = static_cast<float>(lr * o.weight_decay);
}

UpdateScalars ComputeScalars(const OptimizerOptions& o, const UpdateStep& s) {
  UpdateScalars c = {};
  c.gradient_scale = s.gradient_scale;
  c.gradient_limit =
      s.gradient_limit > 0 ? s.gradient_limit : std::numeric_limits<float>::infinity();
  c.learning_rate = s.learning_rate;
  switch (o.kind) {
    case OptimizerKind::kSgd:
      break;
    case OptimizerKind::kMomentum:
    case OptimizerKind::kNesterov:
      c.momentum = static_cast<float>(o.momentum);
      c.learning_rate_momentum = static_cast<float>(s.learning_rate * o.momentum);
      break;
    case OptimizerKind::kAdagrad:
      c.epsilon = static_cast<float>(o.adagrad_epsilon);
      break;
    case OptimizerKind::kAdadelta:
      SetDecay(o.adadelta_rho, c);
      c.epsilon = static_cast<float>(o.adadelta_epsilon);
      break;
    case OptimizerKind::kRmsProp:
      SetDecay(o.rmsprop_decay, c);
      c.momentum = static_cast<float>(o.rmsprop_momentum);
      c.epsilon = static_cast<float>(o.rmsprop_epsilon);
      break;
    case OptimizerKind::kAdam:
    case OptimizerKind::kAdamW:
      SetAdamScalars(o, s, c);
      break;
    case OptimizerKind::kFtrl:
      c.l1 = static_cast<float>(o.ftrl_l1);
      c.two_l2 = static_cast<float>(2 * o.ftrl_l2);
      c.minus_power = -o.ftrl_learning_rate_power;
      break;
  }
  return c;
}

// The number of elements whose decayed gradient is computed, on the stack, before they are updated.
constexpr size_t kDecayBlock = 2048;

void Copy(const float* from, float* to, size_t n) {
  if (from != to && n > 0) std::memcpy(to, from, n * sizeof(float));
}

}  // namespace

UpdateIsa DetectUpdateIsa() {
  if (__builtin_cpu_supports("avx512f")) return UpdateIsa::kAvx512;
  if (__builtin_cpu_supports("avx2")) return UpdateIsa::kAvx2;
  return UpdateIsa::kBaseline;
}

absl::StatusOr<std::unique_ptr<UpdateRule>> UpdateRule::Create(const OptimizerOptions& options,
                                                               UpdateIsa isa) {
  const absl::Status valid = ValidateOptimizerOptions(options);
  if (!valid.ok()) return valid;
  return absl::WrapUnique(new UpdateRule(options, LoopFor(options, isa), isa));
}

UpdateRule::UpdateRule(const OptimizerOptions& options, Loop loop, UpdateIsa isa)
    : options_(options), slots_(ListSlots(options)), loop_(loop), isa_(isa) {}

void UpdateRule::Apply(const UpdateStep& step) const {
  if (options_.kind == OptimizerKind::kFtrl && step.learning_rate == 0) {
    // The formula divides by the learning rate; its limit at 0 leaves everything where it is.
    Copy(step.value, step.new_value, step.n);
    for (size_t k = 0; k < slots_.size(); ++k) Copy(step.slots[k], step.new_slots[k], step.n);
    return;
  }
  if (options_.l2_decay > 0) {
    ApplyWithL2Decay(step);
    return;
  }
  loop_(ComputeScalars(options_, step), step);
}

// The rules' own loops stay as they are for those who use no decay: they get the decayed gradient,
// which needs no scaling and clipping any more.
void UpdateRule::ApplyWithL2Decay(const UpdateStep& step) const {
  const UpdateScalars given = ComputeScalars(options_, step);
  UpdateScalars plain = given;
  plain.gradient_scale = 1;
  plain.gradient_limit = std::numeric_limits<float>::infinity();
  const auto decay = static_cast<float>(options_.l2_decay);
  alignas(64) float decayed[kDecayBlock];
  for (size_t begin = 0; begin < step.n; begin += kDecayBlock) {
    UpdateStep part = step;
    part.n = std::min(kDecayBlock, step.n - begin);
    part.value += begin;
    part.new_value += begin;
    for (size_t k = 0; k < slots_.size(); ++k) {
      part.slots[k] += begin;
      part.new_slots[k] += begin;
    }
    LoopsFor(isa_).decay_gradient(given.gradient_scale, given.gradient_limit, decay,
                                  step.gradient + begin, part.value, decayed, part.n);
    part.gradient = decayed;
    loop_(plain, part);
  }
}

absl::StatusOr<MovingAverage> MovingAverage::Create(double decay) {
  if (!(decay >= 0 && decay <= 1)) {
    return absl::InvalidArgumentError(
        absl::StrCat("moving average field decay is ", decay, ": it must be in [0, 1]"));
  }
  return MovingAverage(decay);
}

MovingAverage::MovingAverage(double decay)
    : decay_(decay), loop_(LoopsFor(DetectUpdateIsa()).moving_average) {}

void MovingAverage::Apply(const float* average, const float* value, float* new_average,
                          size_t n) const {
  loop_(static_cast<float>(decay_), static_cast<float>(1 - decay_), average, value, new_average, n);
}

}  // namespace shoal
