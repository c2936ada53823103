#include "runtime/variables/sync_slice.h"

#include <algorithm>

namespace shoal {

void SyncSlice::Reset(uint64_t version, uint64_t value_version, uint32_t num_positions) {
  version_ = version;
  value_version_ = value_version;
  has_previous_ = false;
  StartStep(num_positions);
}

SyncSlice::Value SyncSlice::Find(uint64_t version) const {
  if (version > version_) return Value::kNotYet;
  if (version >= value_version_) return Value::kCurrent;
  if (has_previous_ && version >= previous_version_) return Value::kPrevious;
  return Value::kGone;
}

SyncSlice::Arrival SyncSlice::Classify(uint64_t step, uint32_t position) const {
  if (step > version_) return Arrival::kAhead;
  if (Has(step, position)) return Arrival::kDuplicate;
  return position == next_position_ ? Arrival::kNext : Arrival::kLater;
}

void SyncSlice::AddNext(uint32_t examples) {
  arrived_[next_position_] = 1;
  ++next_position_;
  ++num_added_;
  examples_ += examples;
}

void SyncSlice::Advance(bool made_value, uint32_t num_positions_of_next_step) {
  ++version_;
  if (made_value) {
    previous_version_ = value_version_;
    has_previous_ = true;
    value_version_ = version_;
  }
  StartStep(num_positions_of_next_step);
}

void SyncSlice::StartStep(uint32_t num_positions) {
  std::fill(arrived_.begin(), arrived_.end(), uint8_t{0});
  num_positions_ = num_positions;
  next_position_ = 0;
  num_added_ = 0;
  examples_ = 0;
}

}  // namespace shoal
