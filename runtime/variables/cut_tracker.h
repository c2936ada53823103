#ifndef SHOAL_RUNTIME_VARIABLES_CUT_TRACKER_H_
#define SHOAL_RUNTIME_VARIABLES_CUT_TRACKER_H_

#include <cstdint>
#include <map>
#include <set>

namespace shoal {

// SYNC: at which versions slices are cut besides the schedule's, and how many slices of a store are
// still missing from each cut that has begun.
class CutTracker {
 public:
  // Starts a lineage: no cut is asked for or begun.
  void Reset(uint32_t num_slices);

  void Ask(uint64_t version) { asked_.insert(version); }
  bool IsAsked(uint64_t version) const { return !asked_.empty() && asked_.count(version) != 0; }

  // A slice was cut at the version. True: it was the last one.
  bool Count(uint64_t version);

 private:
  uint32_t num_slices_ = 0;
  std::set<uint64_t> asked_;
  std::map<uint64_t, uint32_t> missing_;  // by version of a begun cut
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_CUT_TRACKER_H_
