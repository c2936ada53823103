#ifndef SHOAL_RUNTIME_VARIABLES_SYNC_SLICE_H_
#define SHOAL_RUNTIME_VARIABLES_SYNC_SLICE_H_

#include <cstdint>
#include <vector>

namespace shoal {

// The bookkeeping of one slice in SYNC, without its buffers: which version it is at, from when on
// its values are good, and which contributions of the step that leads to the next version are
// there.
//
// A value made as version v stays the slice's value through steps whose batches are all skipped, so
// a value is good for an interval: the current one for [value_version, version], the previous one
// for [previous_version, value_version).
class SyncSlice {
 public:
  enum class Arrival {
    kDuplicate,  // of this step or an earlier one
    kAhead,      // of a later step
    kNext,       // the lowest missing position: add it now
    kLater,      // its turn has not come: keep it
  };
  enum class Value { kCurrent, kPrevious, kNotYet, kGone };

  // `max_positions`: the most that a step has.
  explicit SyncSlice(uint32_t max_positions) : arrived_(max_positions, 0) {}

  // Starts a lineage at a version; num_positions is that of the step that comes.
  void Reset(uint64_t version, uint64_t value_version, uint32_t num_positions);

  uint64_t version() const { return version_; }
  uint64_t value_version() const { return value_version_; }
  uint64_t previous_version() const { return previous_version_; }  // of the previous value
  Value Find(uint64_t version) const;

  Arrival Classify(uint64_t step, uint32_t position) const;
  bool Has(uint64_t step, uint32_t position) const {
    return step < version_ || (step == version_ && arrived_[position] != 0);
  }

  // The lowest position that is neither added nor passed over; num_positions() when all are
  // through.
  uint32_t next_position() const { return next_position_; }
  uint32_t num_positions() const { return num_positions_; }
  bool AllThrough() const { return next_position_ == num_positions_; }
  bool IsThere(uint32_t position) const { return arrived_[position] != 0; }

  void Keep(uint32_t position) { arrived_[position] = 1; }  // kLater: it waits
  void AddNext(uint32_t examples);           // position next_position() is in the sum
  void PassOverNext() { ++next_position_; }  // its batch is skipped

  uint32_t num_added() const { return num_added_; }
  uint64_t examples() const { return examples_; }  // of what was added

  // The step is through. made_value: a new value was made, the one before it becomes the previous
  // one.
  void Advance(bool made_value, uint32_t num_positions_of_next_step);

 private:
  void StartStep(uint32_t num_positions);

  uint64_t version_ = 0;
  uint64_t value_version_ = 0;
  uint64_t previous_version_ = 0;
  bool has_previous_ = false;

  std::vector<uint8_t> arrived_;  // by position
  uint32_t num_positions_ = 0;
  uint32_t next_position_ = 0;
  uint32_t num_added_ = 0;
  uint64_t examples_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_SYNC_SLICE_H_
