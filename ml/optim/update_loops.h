#ifndef SHOAL_ML_OPTIM_UPDATE_LOOPS_H_
#define SHOAL_ML_OPTIM_UPDATE_LOOPS_H_

#include <cstddef>

#include "ml/optim/rowwise_adagrad.h"
#include "ml/optim/update_rule.h"

namespace shoal {
namespace internal {

// The scalars that the loop of an update rule needs. UpdateRule::Apply computes them in double and
// rounds them to float. Only the fields of its rule are set.
struct UpdateScalars {
  float gradient_scale, gradient_limit;  // the limit is infinity if there is none
  float learning_rate;                   // Adam, AdamW: corrected for the bias
  float momentum, learning_rate_momentum;
  float decay, one_minus_decay;    // rho, decay, beta1
  float decay2, one_minus_decay2;  // beta2
  float epsilon;
  float learning_rate_decay;  // AdamW: lr * weight_decay
  float l1, two_l2;
  double minus_power;  // FTRL
};

using UpdateLoop = void (*)(const UpdateScalars&, const UpdateStep&);

// The loops compiled for one instruction set. FTRL with a power other than -0.5 does not use
// vectors.
struct UpdateLoops {
  UpdateLoop sgd, momentum, nesterov, adagrad, adadelta, rmsprop, rmsprop_centered, adam, adamw,
      ftrl;
  // decayed = gradient after scaling and clipping, plus decay * value.
  void (*decay_gradient)(float gradient_scale, float gradient_limit, float decay,
                         const float* gradient, const float* value, float* decayed, size_t n);
  void (*moving_average)(float decay, float one_minus_decay, const float* average,
                         const float* value, float* new_average, size_t n);
  bool (*all_finite)(const float* values, size_t n);
  bool (*rowwise_adagrad)(const RowwiseAdagradStep& step);
};

const UpdateLoops& BaselineUpdateLoops();
const UpdateLoops& Avx2UpdateLoops();
const UpdateLoops& Avx512UpdateLoops();
const UpdateLoops& LoopsFor(UpdateIsa isa);

}  // namespace internal
}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_UPDATE_LOOPS_H_
