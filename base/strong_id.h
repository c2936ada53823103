// Integers that cannot be mixed up.
//
//   using PsIndex = StrongId<struct PsIndexTag, int32_t>;
//
// Ordered, hashable, printable as the bare number; no arithmetic but ++.
#ifndef SHOAL_BASE_STRONG_ID_H_
#define SHOAL_BASE_STRONG_ID_H_

#include <ostream>
#include <utility>

namespace shoal {

template <typename Tag, typename Rep>
class StrongId {
 public:
  using rep = Rep;

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}

  constexpr Rep value() const { return value_; }

  StrongId& operator++() {
    ++value_;
    return *this;
  }
  StrongId operator++(int) {
    StrongId before = *this;
    ++value_;
    return before;
  }

  friend constexpr bool operator==(StrongId a, StrongId b) { return a.value_ == b.value_; }
  friend constexpr bool operator!=(StrongId a, StrongId b) { return a.value_ != b.value_; }
  friend constexpr bool operator<(StrongId a, StrongId b) { return a.value_ < b.value_; }
  friend constexpr bool operator<=(StrongId a, StrongId b) { return a.value_ <= b.value_; }
  friend constexpr bool operator>(StrongId a, StrongId b) { return a.value_ > b.value_; }
  friend constexpr bool operator>=(StrongId a, StrongId b) { return a.value_ >= b.value_; }

  template <typename H>
  friend H AbslHashValue(H state, StrongId id) {
    return H::combine(std::move(state), id.value_);
  }
  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << +id.value_; }

 private:
  Rep value_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_BASE_STRONG_ID_H_
