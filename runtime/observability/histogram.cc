#include "runtime/observability/histogram.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace shoal {

const std::vector<double>& DefaultBucketLimits() {
  static const auto& limits = *[] {
    auto* all = new std::vector<double>;
    for (double limit = 1.0e-12; limit < 1.0e20; limit *= 1.1) all->push_back(limit);
    all->push_back(std::numeric_limits<double>::max());
    const size_t positive = all->size();
    all->push_back(0);
    for (size_t i = 0; i < positive; ++i) all->push_back(-(*all)[i]);
    std::sort(all->begin(), all->end());
    return all;
  }();
  return limits;
}

void ValueHistogram::Add(absl::Span<const float> values) {
  const std::vector<double>& limits = DefaultBucketLimits();
  for (const float value : values) {
    if (!std::isfinite(value)) {
      is_finite_ = false;
      continue;
    }
    const double x = value;
    const auto bucket = std::upper_bound(limits.begin(), limits.end(), x) - limits.begin();
    ++counts_[static_cast<size_t>(bucket)];
    ++num_;
    min_ = std::min(min_, x);
    max_ = std::max(max_, x);
    sum_ += x;
    sum_squares_ += x * x;
  }
}

std::vector<ValueHistogram::Bucket> ValueHistogram::buckets() const {
  const std::vector<double>& limits = DefaultBucketLimits();
  std::vector<Bucket> buckets;
  for (size_t i = 0; i < counts_.size(); ++i) {
    while (counts_[i] == 0 && i + 1 < counts_.size() && counts_[i + 1] == 0) ++i;
    buckets.push_back({limits[i], static_cast<double>(counts_[i])});
  }
  return buckets;
}

}  // namespace shoal
