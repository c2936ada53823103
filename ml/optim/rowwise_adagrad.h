// Adagrad with one accumulator for each row of a table.
#ifndef SHOAL_ML_OPTIM_ROWWISE_ADAGRAD_H_
#define SHOAL_ML_OPTIM_ROWWISE_ADAGRAD_H_

#include <cstddef>

#include "ml/optim/update_rule.h"

namespace shoal {

// The rows to update and their gradients. A row is `dim` floats of value, then one float, its
// accumulator. All memory is borrowed; rows do not overlap.
struct RowwiseAdagradStep {
  float learning_rate = 0;
  float gradient_scale = 1;  // multiplies the gradients
  float epsilon = 0;
  const float* gradients = nullptr;  // num_rows times dim
  float* const* rows = nullptr;      // changed in place
  size_t num_rows = 0;
  size_t dim = 0;
};

// a' = a + mean(g^2);  v' = v - lr * g / (sqrt(a') + epsilon), for the accumulator a, the value v
// and the scaled gradient g of a row. The results have the same bits with all instruction sets.
// Returns false if a number of a new row is not finite; the rows are changed all the same.
// Thread-safe.
bool ApplyRowwiseAdagrad(const RowwiseAdagradStep& step, UpdateIsa isa = DetectUpdateIsa());

}  // namespace shoal

#endif  // SHOAL_ML_OPTIM_ROWWISE_ADAGRAD_H_
