// Counts of values in TensorFlow's buckets.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_HISTOGRAM_H_
#define SHOAL_RUNTIME_OBSERVABILITY_HISTOGRAM_H_

#include <cstdint>
#include <vector>

#include "absl/types/span.h"

namespace shoal {

// Returns the right ends of TensorFlow's default buckets (core/lib/histogram/histogram.cc) in
// rising order: from 1e-12 to 1e20, each 1.1 times the previous one, and the largest double; the
// negatives of these; and 0. A value belongs to the first bucket whose end is above it.
const std::vector<double>& DefaultBucketLimits();

// Counts values in these buckets. Not thread-safe.
class ValueHistogram {
 public:
  ValueHistogram() : counts_(DefaultBucketLimits().size(), 0) {}

  // Adds values. Those that are not finite are in no bucket but make is_finite() false.
  void Add(absl::Span<const float> values);

  uint64_t num() const { return num_; }
  bool is_finite() const { return is_finite_; }
  // Return the largest double and its negative if there are no values, as in TensorFlow.
  double min() const { return min_; }
  double max() const { return max_; }
  double sum() const { return sum_; }
  double sum_squares() const { return sum_squares_; }

  // A bucket: its right end and the number of its values. buckets() returns at least one, and
  // merges consecutive empty ones.
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
