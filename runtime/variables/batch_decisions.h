#ifndef SHOAL_RUNTIME_VARIABLES_BATCH_DECISIONS_H_
#define SHOAL_RUNTIME_VARIABLES_BATCH_DECISIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "runtime/plan/batch_key.h"

namespace shoal {

// What the chief said about bad batches, as one store knows it: withheld (no slice takes it while
// the chief decides), skipped (none ever will), or free again. Every withhold has a number that its
// decision repeats; a withhold that is not newer than the last decision seen for the batch came
// late and is ignored. Few entries: bad batches are rare.
class BatchDecisions {
 public:
  // Starts a lineage: only the chief's memory of skips remains.
  void Reset(const std::vector<BatchKey>& skipped);

  bool IsRefused(const BatchKey& batch) const {
    return (!withheld_.empty() && withheld_.count(batch) != 0) || IsSkipped(batch);
  }
  bool IsSkipped(const BatchKey& batch) const {
    return !skipped_.empty() && skipped_.count(batch) != 0;
  }

  // False: ignored.
  bool Withhold(const BatchKey& batch, uint64_t number);
  // False: seen before.
  bool Decide(const BatchKey& batch, uint64_t number, bool skip);

 private:
  std::set<BatchKey> skipped_;
  std::map<BatchKey, uint64_t> withheld_;  // number of the newest withhold
  std::map<BatchKey, uint64_t> decided_;   // number of the newest decision
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_BATCH_DECISIONS_H_
