// Counts of values in TensorFlow's buckets.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_HISTOGRAM_H_
#define SHOAL_RUNTIME_OBSERVABILITY_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace shoal {

// The right ends of TensorFlow's default buckets (core/lib/histogram/histogram.cc), rising: from
// 1e-12 each is 1.1 times the one before, up to 1e20, then the largest double; the same below 0,
// and 0 itself. A value is in the first bucket whose end is above it.
const std::vector<double>& DefaultBucketLimits();

// Not thread safe.
class ValueHistogram {
 public:
  ValueHistogram() : counts_(DefaultBucketLimits().size(), 0) {}

  // Values that are not finite are in no bucket, but make is_finite() false.
  void Add(absl::Span<const float> values);

  uint64_t num() const { return num_; }
  bool is_finite() const { return is_finite_; }
  // If there are no values: the largest double and its negative, as TensorFlow has it.
  double min() const { return min_; }
  double max() const { return max_; }
  double sum() const { return sum_; }
  double sum_squares() const { return sum_squares_; }

  // Buckets with their right ends; a run of empty ones is one. At least one.
  struct Bucket {
    double limit;
    double count;
  };
  std::vector<Bucket> buckets() const;

 private:
  std::vector<uint64_t> counts_;
  uint64_t num_ = 0;
  bool is_finite_ = true;
  double min_ = DefaultBucketLimits().back();
  double max_ = -DefaultBucketLimits().back();
  double sum_ = 0;
  double sum_squares_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_HISTOGRAM_H_
