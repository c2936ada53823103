#include "runtime/observability/metric.h"

#include <algorithm>

namespace shoal {
namespace {

constexpr double kSeconds[] = {0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25,
                               0.5,    1,     2.5,    5,     10,   30,    60,   300};
constexpr double kSteps[] = {0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 1024};

}  // namespace

void MetricHistogram::Observe(double value) {
  const size_t bucket = static_cast<size_t>(
      std::lower_bound(bounds_.begin(), bounds_.end(), value) - bounds_.begin());
  counts_[bucket].fetch_add(1, std::memory_order_relaxed);
  double sum = sum_.load(std::memory_order_relaxed);
  while (!sum_.compare_exchange_weak(sum, sum + value, std::memory_order_relaxed)) {
  }
}

absl::Span<const double> BoundsOfSeconds() { return kSeconds; }
absl::Span<const double> BoundsOfSteps() { return kSteps; }

}  // namespace shoal
