#include "base/interval_set.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal {

absl::StatusOr<IntervalSet> IntervalSet::FromRanges(absl::Span<const Range> ranges) {
  IntervalSet set;
  for (const Range& range : ranges) {
    const bool apart = set.empty() || range.begin > set.ranges_.back().end;
    if (range.begin >= range.end || !apart) {
      return absl::InvalidArgumentError(absl::StrCat("batch range [", range.begin, ", ", range.end,
                                                     ") is empty or out of order"));
    }
    set.ranges_.push_back(range);
    set.count_ += range.end - range.begin;
  }
  return set;
}

size_t IntervalSet::FirstEndingAfter(uint64_t index) const {
  const auto it = std::upper_bound(ranges_.begin(), ranges_.end(), index,
                                   [](uint64_t i, const Range& range) { return i < range.end; });
  return static_cast<size_t>(it - ranges_.begin());
}

bool IntervalSet::Insert(uint64_t index) {
  if (Contains(index)) return false;
  InsertRange(index, index + 1);
  return true;
}

void IntervalSet::InsertRange(uint64_t begin, uint64_t end) {
  if (begin >= end) return;
  // Ranges [first, last) overlap or touch the new one and become part of it.
  size_t first = begin == 0 ? 0 : FirstEndingAfter(begin - 1);
  size_t last = first;
  Range merged{begin, end};
  for (; last < ranges_.size() && ranges_[last].begin <= end; ++last) {
    merged.begin = std::min(merged.begin, ranges_[last].begin);
    merged.end = std::max(merged.end, ranges_[last].end);
    count_ -= ranges_[last].end - ranges_[last].begin;
  }
  count_ += merged.end - merged.begin;
  if (first == last) {
    ranges_.insert(ranges_.begin() + first, merged);
  } else {
    ranges_[first] = merged;
    ranges_.erase(ranges_.begin() + first + 1, ranges_.begin() + last);
  }
}

bool IntervalSet::Remove(uint64_t index) {
  if (!Contains(index)) return false;
  const size_t at = FirstEndingAfter(index);
  const Range range = ranges_[at];
  --count_;
  if (range.end - range.begin == 1) {
    ranges_.erase(ranges_.begin() + at);
  } else if (index == range.begin) {
    ranges_[at].begin = index + 1;
  } else {
    ranges_[at].end = index;
    if (index + 1 < range.end) ranges_.insert(ranges_.begin() + at + 1, {index + 1, range.end});
  }
  return true;
}

bool IntervalSet::Contains(uint64_t index) const { return ContainsRange(index, index + 1); }

bool IntervalSet::ContainsRange(uint64_t begin, uint64_t end) const {
  if (begin >= end) return true;
  const size_t at = FirstEndingAfter(begin);
  return at < ranges_.size() && ranges_[at].begin <= begin && end <= ranges_[at].end;
}

IntervalSet IntervalSet::Intersection(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  size_t in_a = 0;
  size_t in_b = 0;
  while (in_a < a.ranges_.size() && in_b < b.ranges_.size()) {
    const Range& of_a = a.ranges_[in_a];
    const Range& of_b = b.ranges_[in_b];
    result.InsertRange(std::max(of_a.begin, of_b.begin), std::min(of_a.end, of_b.end));
    of_a.end < of_b.end ? ++in_a : ++in_b;
  }
  return result;
}

IntervalSet IntervalSet::Difference(const IntervalSet& a, const IntervalSet& b) {
  IntervalSet result;
  for (const Range& range : a.ranges_) {
    const IntervalSet left = b.Missing(range.begin, range.end);
    for (const Range& piece : left.ranges_) result.InsertRange(piece.begin, piece.end);
  }
  return result;
}

IntervalSet IntervalSet::Missing(uint64_t begin, uint64_t end) const {
  IntervalSet result;
  uint64_t from = begin;
  for (size_t at = FirstEndingAfter(begin); at < ranges_.size() && from < end; ++at) {
    result.InsertRange(from, std::min(end, ranges_[at].begin));
    from = ranges_[at].end;
  }
  result.InsertRange(from, end);
  return result;
}

}  // namespace shoal
