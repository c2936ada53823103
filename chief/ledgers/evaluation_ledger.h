#ifndef SHOAL_CHIEF_LEDGERS_EVALUATION_LEDGER_H_
#define SHOAL_CHIEF_LEDGERS_EVALUATION_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>

#include "runtime/variables/metric_sums.h"

namespace shoal {

// Sums of the test split at one version, or of one block of it.
struct EvaluationSums {
  double loss_sum = 0;
  uint64_t correct = 0;
  uint64_t examples = 0;
  MetricSums metrics = {};
};

// Collects evaluations. The test split is divided into a fixed number of blocks, and workers report
// each block, perhaps more than once. Blocks are added in their order, so the sums do not depend on
// which worker computed which block. Not thread-safe.
class EvaluationLedger {
 public:
  explicit EvaluationLedger(uint64_t num_blocks) : num_blocks_(num_blocks) {}

  uint64_t num_blocks() const { return num_blocks_; }

  // Returns false if the block does not exist. A repeated block changes nothing.
  bool Add(uint64_t version, uint64_t block, const EvaluationSums& sums);

  // Returns the sums of the whole split once all blocks of the version have been reported. The sum
  // and the weight of a metric with a histogram are computed from the histogram.
  std::optional<EvaluationSums> Total(uint64_t version) const;

  // Returns the number of blocks of the version that have not been reported yet.
  uint64_t NumMissing(uint64_t version) const;

  // Forget the versions above `version` (after a rollback), or those below it.
  void ForgetAbove(uint64_t version);
  void ForgetBelow(uint64_t version);

 private:
  const uint64_t num_blocks_;
  std::map<uint64_t, std::map<uint64_t, EvaluationSums>> versions_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_LEDGERS_EVALUATION_LEDGER_H_
