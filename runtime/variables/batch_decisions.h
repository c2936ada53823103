#ifndef SHOAL_RUNTIME_VARIABLES_BATCH_DECISIONS_H_
#define SHOAL_RUNTIME_VARIABLES_BATCH_DECISIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

#include "runtime/plan/batch_key.h"

namespace shoal {

// The chief's decisions about bad batches, as one store has received them. A batch is withheld (no
// slice takes it while the chief decides), skipped (no slice will ever take it), or free again.
// Every withhold has a number, which its decision repeats. A withhold whose number is not above
// that of the last decision for the batch is late and is ignored. Bad batches are rare, so there
// are few entries.
class BatchDecisions {
 public:
  // Starts a lineage: forgets all decisions except the skips in the list.
  void Reset(const std::vector<BatchKey>& skipped);

  bool IsRefused(const BatchKey& batch) const {
    return (!withheld_.empty() && withheld_.count(batch) != 0) || IsSkipped(batch);
  }
  bool IsSkipped(const BatchKey& batch) const {
    return !skipped_.empty() && skipped_.count(batch) != 0;
  }

  // Returns false if the withhold is late and ignored.
  bool Withhold(const BatchKey& batch, uint64_t number);
  // Returns false if the decision is a repetition.
  bool Decide(const BatchKey& batch, uint64_t number, bool skip);

 private:
  std::set<BatchKey> skipped_;
  std::map<BatchKey, uint64_t> withheld_;  // the number of the newest withhold
  std::map<BatchKey, uint64_t> decided_;   // the number of the newest decision
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_BATCH_DECISIONS_H_
