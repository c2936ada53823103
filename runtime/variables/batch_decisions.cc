#include "runtime/variables/batch_decisions.h"

#include <algorithm>

namespace shoal {

void BatchDecisions::Reset(const std::vector<BatchKey>& skipped) {
  skipped_ = std::set<BatchKey>(skipped.begin(), skipped.end());
  withheld_.clear();
  decided_.clear();
}

bool BatchDecisions::Withhold(const BatchKey& batch, uint64_t number) {
  const auto decided = decided_.find(batch);
  if (decided != decided_.end() && number <= decided->second) return false;
  if (IsSkipped(batch)) return true;
  uint64_t& newest = withheld_[batch];
  newest = std::max(newest, number);
  return true;
}

bool BatchDecisions::Decide(const BatchKey& batch, uint64_t number, bool skip) {
  uint64_t& decided = decided_[batch];
  if (number <= decided) return false;
  decided = number;
  const auto withheld = withheld_.find(batch);
  if (withheld != withheld_.end() && withheld->second <= number) withheld_.erase(withheld);
  if (skip) skipped_.insert(batch);
  return true;
}

}  // namespace shoal
