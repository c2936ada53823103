#include "chief/ledgers/evaluation_ledger.h"

namespace shoal {

bool EvaluationLedger::Add(uint64_t version, uint64_t block, const EvaluationSums& sums) {
  if (block >= num_blocks_) return false;
  versions_[version].try_emplace(block, sums);
  return true;
}

std::optional<EvaluationSums> EvaluationLedger::Total(uint64_t version) const {
  if (NumMissing(version) > 0) return std::nullopt;
  EvaluationSums total;
  auto it = versions_.find(version);
  if (it == versions_.end()) return total;
  for (const auto& [block, sums] : it->second) {
    total.loss_sum += sums.loss_sum;
    total.correct += sums.correct;
    total.examples += sums.examples;
    AddMetrics(sums.metrics, &total.metrics);
  }
  FinishHistograms(&total.metrics);
  return total;
}

uint64_t EvaluationLedger::NumMissing(uint64_t version) const {
  auto it = versions_.find(version);
  return num_blocks_ - (it == versions_.end() ? 0 : it->second.size());
}

void EvaluationLedger::ForgetAbove(uint64_t version) {
  versions_.erase(versions_.upper_bound(version), versions_.end());
}

void EvaluationLedger::ForgetBelow(uint64_t version) {
  versions_.erase(versions_.begin(), versions_.lower_bound(version));
}

}  // namespace shoal
