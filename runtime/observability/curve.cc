#include "runtime/observability/curve.h"

#include <cmath>
#include <utility>

namespace shoal {

void Curve::Add(uint64_t step, double value) {
  if (!std::isfinite(value)) return;
  const auto is_covered = [this, step] {
    return !means_.empty() && means_.back().index == step / width_;
  };
  // Points that are far apart become one only after several times.
  while (means_.size() >= kMostPoints && !is_covered()) Halve();
  if (!is_covered()) means_.push_back({step / width_, step, 0, 0});
  Mean& mean = means_.back();
  mean.last_step = step;
  mean.sum += value;
  ++mean.count;
}

void Curve::Halve() {
  width_ *= 2;
  std::vector<Mean> merged;
  for (const Mean& mean : means_) {
    if (merged.empty() || merged.back().index != mean.index / 2) {
      merged.push_back(mean);
      merged.back().index /= 2;
      continue;
    }
    merged.back().last_step = mean.last_step;
    merged.back().sum += mean.sum;
    merged.back().count += mean.count;
  }
  means_ = std::move(merged);
}

void Curve::GoBackTo(uint64_t step) {
  while (!means_.empty() && means_.back().last_step > step) means_.pop_back();
}

std::vector<CurvePoint> Curve::Points() const {
  std::vector<CurvePoint> points;
  for (const Mean& mean : means_) {
    points.push_back({mean.last_step, mean.sum / static_cast<double>(mean.count)});
  }
  return points;
}

}  // namespace shoal
