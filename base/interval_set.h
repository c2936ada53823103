#ifndef SHOAL_BASE_INTERVAL_SET_H_
#define SHOAL_BASE_INTERVAL_SET_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

namespace shoal {

// A set of indices, stored as sorted ranges that neither overlap nor touch: a large set is small if
// its indices are mostly consecutive. Adding an index at the end of a range does not allocate. Not
// thread-safe.
class IntervalSet {
 public:
  struct Range {
    uint64_t begin = 0;
    uint64_t end = 0;  // one past the last

    friend bool operator==(const Range& a, const Range& b) {
      return a.begin == b.begin && a.end == b.end;
    }
  };

  IntervalSet() = default;

  // Makes a set of ranges from disk or network. Returns InvalidArgument if a range is empty, or the
  // ranges are not sorted or touch each other.
  static absl::StatusOr<IntervalSet> FromRanges(absl::Span<const Range> ranges);

  // Returns false if the set had the index already.
  bool Insert(uint64_t index);
  void InsertRange(uint64_t begin, uint64_t end);
  // Returns false if the set did not have the index.
  bool Remove(uint64_t index);
  void Clear() { ranges_.clear(), count_ = 0; }

  bool Contains(uint64_t index) const;
  bool ContainsRange(uint64_t begin, uint64_t end) const;
  uint64_t Count() const { return count_; }
  bool empty() const { return ranges_.empty(); }
  const std::vector<Range>& ranges() const { return ranges_; }

  static IntervalSet Intersection(const IntervalSet& a, const IntervalSet& b);
  // Returns the indices of a that are not in b.
  static IntervalSet Difference(const IntervalSet& a, const IntervalSet& b);
  // Returns the indices of [begin, end) that are not in the set.
  IntervalSet Missing(uint64_t begin, uint64_t end) const;

  friend bool operator==(const IntervalSet& a, const IntervalSet& b) {
    return a.ranges_ == b.ranges_;
  }

 private:
  // Returns the position of the first range that ends after `index`.
  size_t FirstEndingAfter(uint64_t index) const;

  std::vector<Range> ranges_;
  uint64_t count_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_BASE_INTERVAL_SET_H_
