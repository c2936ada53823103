#include "ml/optim/all_finite.h"

#include "ml/optim/update_loops.h"
#include "ml/optim/update_rule.h"

namespace shoal {

bool AllFinite(const float* values, size_t n) {
  return internal::LoopsFor(DetectUpdateIsa()).all_finite(values, n);
}

}  // namespace shoal
