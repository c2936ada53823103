#ifndef SHOAL_RUNTIME_VARIABLES_SYNC_SLICE_H_
#define SHOAL_RUNTIME_VARIABLES_SYNC_SLICE_H_

#include <cstdint>
#include <vector>

namespace shoal {

// The bookkeeping of one slice in SYNC, without its buffers: its version, the versions for which
// its values are valid, and the contributions to its next version that have arrived.
//
// A step whose batches are all skipped does not change the value, so a value is valid for an
// interval of versions: the current one for [value_version, version], the previous one for
// [previous_version, value_version).
class SyncSlice {
 public:
  enum class Arrival {
    kDuplicate,  // it is of this step and has arrived, or of an earlier step
    kAhead,      // it is of a later step
    kNext,       // it has the lowest missing position: add it now
    kLater,      // its turn has not come: store it
  };
  enum class Value { kCurrent, kPrevious, kNotYet, kGone };

  // `max_positions` is the largest number of positions in a step.
  explicit SyncSlice(uint32_t max_positions) : arrived_(max_positions, 0) {}

  // Starts a lineage at a version. `num_positions` is the number of positions of the next step.
  void Reset(uint64_t version, uint64_t value_version, uint32_t num_positions);

  uint64_t version() const { return version_; }
  uint64_t value_version() const { return value_version_; }
  // The first version of the previous value.
  uint64_t previous_version() const { return previous_version_; }
  Value Find(uint64_t version) const;

  Arrival Classify(uint64_t step, uint32_t position) const;
  bool Has(uint64_t step, uint32_t position) const {
    return step < version_ || (step == version_ && arrived_[position] != 0);
  }

  // The lowest position that is neither added nor passed over; num_positions() if there is none.
  uint32_t next_position() const { return next_position_; }
  uint32_t num_positions() const { return num_positions_; }
  bool AllThrough() const { return next_position_ == num_positions_; }
  bool HasArrived(uint32_t position) const { return arrived_[position] != 0; }

  void Keep(uint32_t position) { arrived_[position] = 1; }  // for kLater
  void AddNext(uint32_t examples);                          // next_position() was added to the sum
  void PassOverNext() { ++next_position_; }                 // next_position()'s batch is skipped

  uint32_t num_added() const { return num_added_; }
  uint64_t examples() const { return examples_; }  // the examples of the added contributions

  // Ends the step. If `made_value`, a new value was made and the one before it becomes the previous
  // value.
  void Advance(bool made_value, uint32_t num_positions_of_next_step);

 private:
  void StartStep(uint32_t num_positions);

  uint64_t version_ = 0;
  uint64_t value_version_ = 0;
  uint64_t previous_version_ = 0;
  bool has_previous_ = false;

  std::vector<uint8_t> arrived_;  // indexed by position
  uint32_t num_positions_ = 0;
  uint32_t next_position_ = 0;
  uint32_t num_added_ = 0;
  uint64_t examples_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SYNC_SLICE_H_
