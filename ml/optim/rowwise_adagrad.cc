#include "ml/optim/rowwise_adagrad.h"

#include "ml/optim/update_loops.h"

namespace shoal {

bool ApplyRowwiseAdagrad(const RowwiseAdagradStep& step, UpdateIsa isa) {
  return internal::LoopsFor(isa).rowwise_adagrad(step);
}

}  // namespace shoal
