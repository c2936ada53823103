// Metrics that a task counts while it runs.
//
// They are plain members of the classes that count. Adding is a relaxed atomic operation that
// neither locks nor allocates, so it can be used during every step (NamedGauges are an exception).
// A TaskSource (task_monitor.h) puts them on a MetricPage when a scrape asks for it.
#ifndef SHOAL_RUNTIME_OBSERVABILITY_METRIC_H_
#define SHOAL_RUNTIME_OBSERVABILITY_METRIC_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/types/span.h"

#include "base/mutex.h"

namespace shoal {

// Only rises. Thread-safe.
class MetricCounter {
 public:
  void Add(uint64_t count = 1) { value_.fetch_add(count, std::memory_order_relaxed); }
  uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<uint64_t> value_{0};
};

// The newest value of a quantity. Thread-safe.
class MetricGauge {
 public:
  explicit MetricGauge(double value = 0) : value_(value) {}
  void Set(double value) { value_.store(value, std::memory_order_relaxed); }
  double value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<double> value_;
};

// The newest values of quantities that have names. Thread-safe; takes a lock.
class NamedGauges {
 public:
  // Replaces the values of these names. Those without a value keep theirs.
  void Set(const std::map<std::string, std::optional<double>>& values) {
    if (values.empty()) return;
    MutexLock lock(&mutex_);
    for (const auto& [name, value] : values) {
      if (value.has_value()) values_[name] = *value;
    }
  }
  std::map<std::string, double> values() const {
    MutexLock lock(&mutex_);
    return values_;
  }

 private:
  mutable Mutex mutex_;
  std::map<std::string, double> values_ ABSL_GUARDED_BY(mutex_);
};

// Counts observations by ranges. Thread-safe; a reader may see an observation in its bucket before
// it is in the sum.
class MetricHistogram {
 public:
  static constexpr size_t kMaxBounds = 20;

  // Upper bounds of the buckets, rising, at most kMaxBounds, without the infinite one. They are not
  // copied: constants.
  explicit MetricHistogram(absl::Span<const double> bounds) : bounds_(bounds) {}

  void Observe(double value);

  absl::Span<const double> bounds() const { return bounds_; }
  // Observations in bucket `i`; bucket bounds().size() is that of all above the last bound.
  uint64_t count(size_t i) const { return counts_[i].load(std::memory_order_relaxed); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  const absl::Span<const double> bounds_;
  std::array<std::atomic<uint64_t>, kMaxBounds + 1> counts_{};
  std::atomic<double> sum_{0};
};

// 0.5 ms to 5 min.
absl::Span<const double> BoundsOfSeconds();
// 0 to 1024 steps.
absl::Span<const double> BoundsOfSteps();

}  // namespace shoal

#endif  // SHOAL_RUNTIME_OBSERVABILITY_METRIC_H_
