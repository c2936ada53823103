#ifndef SHOAL_RUNTIME_VARIABLES_CUT_TRACKER_H_
#define SHOAL_RUNTIME_VARIABLES_CUT_TRACKER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>

namespace shoal {

// SYNC: records the requested cuts, which come in addition to the scheduled ones, and counts how
// many slices of a store are still missing from each cut that has begun.
class CutTracker {
 public:
  // Starts a lineage: no cut is requested or begun.
  void Reset(uint32_t num_slices);

  // Notes the request. Returns true if the slices that are at this version already must be cut now;
  // the others are cut when they reach it. Returns false if the cut was requested before, or if it
  // is the newest cut that all slices have made.
  bool Ask(uint64_t version) { return asked_.insert(version).second && version != complete_; }
  bool IsAsked(uint64_t version) const { return !asked_.empty() && asked_.count(version) != 0; }

  // Notes that a slice was cut at the version. Returns true if it was the last slice.
  bool Count(uint64_t version);

 private:
  uint32_t num_slices_ = 0;
  std::set<uint64_t> asked_;
  std::map<uint64_t, uint32_t> missing_;  // keyed by the version of a begun cut
  std::optional<uint64_t> complete_;      // the newest cut of all slices
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_CUT_TRACKER_H_
