#include "chief/ledgers/gradient_norms.h"

#include <algorithm>
#include <cmath>

namespace shoal {
namespace {

// No slice is ever more than one step ahead of another.
constexpr size_t kMostSteps = 8;

}  // namespace

void GradientNorms::Add(uint64_t step, uint32_t slice, double squared_norm) {
  steps_[step].try_emplace(slice, squared_norm);
  if (steps_.size() > kMostSteps) steps_.erase(steps_.begin());
}

std::optional<double> GradientNorms::Scale(uint64_t step) const {
  auto it = steps_.find(step);
  if (it == steps_.end() || it->second.size() < num_slices_) return std::nullopt;
  double sum = 0;
  for (const auto& [slice, squared_norm] : it->second) sum += squared_norm;
  return clip_ / std::max(std::sqrt(sum), clip_);
}

}  // namespace shoal
