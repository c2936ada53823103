#ifndef SHOAL_ML_OPTIM_OPTIMIZER_OPTIONS_H_
#define SHOAL_ML_OPTIM_OPTIMIZER_OPTIONS_H_

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace shoal {

enum class OptimizerKind {
  kSgd,
  kMomentum,
  kNesterov,
  kAdagrad,
  kAdadelta,
  kRmsProp,
  kAdam,
  kAdamW,
  kFtrl,
};

// The hyperparameters of all update rules with their defaults, which are TensorFlow's (AdamW's
// weight decay is PyTorch's). The learning rate is not here, because a schedule computes it for
// every step. In the formulas, v is the variable, g the gradient, lr the learning rate, t the
// number of the step from 1, and a prime marks the value after the step. The other primed letters
// are slots, in the order of the last column, but u, lr_t and p are only abbreviations. Adam's slot
// named v, the second moment, is s in the formula, because v is the variable.
//
// rule      formula                                                  slots (initial value)
// sgd       v' = v - lr*g                                            -
// momentum  a' = momentum*a + g;  v' = v - lr*a'                     momentum (0)
// nesterov  a' = momentum*a + g;  v' = v - (lr*g + lr*momentum*a')   momentum (0)
// adagrad   a' = a + g^2;  v' = v - lr*g / (sqrt(a') + epsilon)      accumulator (0.1)
// adadelta  a' = rho*a + (1-rho)*g^2;                                accumulator (0),
//           u = g * sqrt(d + epsilon) / sqrt(a' + epsilon);          accumulator_update (0)
//           v' = v - lr*u;  d' = rho*d + (1-rho)*u^2
// rmsprop   s' = decay*s + (1-decay)*g^2;                            rms (1), momentum (0),
//           m' = momentum*m + lr*g / sqrt(s' + epsilon);             centered: mean_gradient (0)
//           v' = v - m'   (centered: s' - c'^2 in the place of s',
//           with c' = decay*c + (1-decay)*g)
// adam      m' = beta1*m + (1-beta1)*g;                              m (0), v (0)
//           s' = beta2*s + (1-beta2)*g^2;
//           lr_t = lr * sqrt(1 - beta2^t) / (1 - beta1^t);
//           v' = v - lr_t*m' / (sqrt(s') + epsilon_t);
//           epsilon_t = epsilon, or epsilon * sqrt(1 - beta2^t) if corrected_epsilon
// adamw     as adam, and v' loses lr*weight_decay*v as well          m (0), v (0)
// ftrl      n' = n + g^2;                                            accumulator (0.1), linear (0)
//           z' = z + g - (n'^-p - n^-p)/lr * v;
//           v' = |z'| > l1 ? (sign(z')*l1 - z') / (n'^-p/lr + 2*l2) : 0
//           with p = learning_rate_power
//
// The gradient g is replaced by g + l2_decay*v in all rules but adamw and ftrl.
struct OptimizerOptions {
  OptimizerKind kind = OptimizerKind::kSgd;

  // Momentum, Nesterov. RMSProp has its own field, because its default differs.
  double momentum = 0.9;

  // Adagrad. Epsilon is added outside the root.
  double adagrad_initial_accumulator = 0.1;
  double adagrad_epsilon = 0.0;

  // Adadelta. Epsilon is added inside both roots.
  double adadelta_rho = 0.95;
  double adadelta_epsilon = 1e-8;

  // RMSProp. Epsilon is added inside the root. The rule with `centered` is that of Graves
  // (arXiv:1308.0850), as TensorFlow computes it.
  double rmsprop_decay = 0.9;
  double rmsprop_momentum = 0.0;
  double rmsprop_epsilon = 1e-10;
  bool rmsprop_centered = false;

  // Adam, AdamW. Epsilon is added outside the root of the uncorrected second moment ("epsilon
  // hat", as in TensorFlow), or of the corrected one (as in PyTorch and the paper's algorithm).
  double beta1 = 0.9;
  double beta2 = 0.999;
  double adam_epsilon = 1e-8;
  bool corrected_epsilon = false;
  double weight_decay = 0.01;  // AdamW only

  // FTRL.
  double ftrl_learning_rate_power = -0.5;
  double ftrl_initial_accumulator = 0.1;
  double ftrl_l1 = 0.0;
  double ftrl_l2 = 0.0;

  // The weight decay of a parameter group whose rule has none of its own (optimizer.group).
  double l2_decay = 0.0;
};

// Returns "sgd", "momentum", "nesterov", "adagrad", "adadelta", "rmsprop", "adam", "adamw" or
// "ftrl".
absl::string_view OptimizerName(OptimizerKind kind);
absl::StatusOr<OptimizerKind> ParseOptimizerKind(absl::string_view name);

// InvalidArgument names the field and the values that it may have.
absl::Status ValidateOptimizerOptions(const OptimizerOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_OPTIMIZER_OPTIONS_H_
