#ifndef SHOAL_CHIEF_SESSION_EVALUATION_LEDGER_H_
#define SHOAL_CHIEF_SESSION_EVALUATION_LEDGER_H_

#include <cstdint>
#include <map>
#include <optional>

namespace shoal {

// Sums of the test split at one version, or of one block of it.
struct EvaluationSums {
  double loss_sum = 0;
  uint64_t correct = 0;
  uint64_t examples = 0;
};

// Collects evaluations: the test split is cut into a fixed number of blocks, each reported by
// the worker that owns it, perhaps more than once. Blocks are added in their order, so the sums do
// not depend on who computed what. One thread at a time.
class EvaluationLedger {
 public:
  explicit EvaluationLedger(uint64_t num_blocks) : num_blocks_(num_blocks) {}

  uint64_t num_blocks() const { return num_blocks_; }

  // False if there is no such block. A repeated block changes nothing.
  bool Add(uint64_t version, uint64_t block, const EvaluationSums& sums);

  // The sums of the whole split, once all blocks of the version are there.
  std::optional<EvaluationSums> Total(uint64_t version) const;

  // Blocks of the version that are not there yet.
  uint64_t NumMissing(uint64_t version) const;

  // Forgets versions above (after a rollback) or below `version`.
  void ForgetAbove(uint64_t version);
  void ForgetBelow(uint64_t version);

 private:
  const uint64_t num_blocks_;
  std::map<uint64_t, std::map<uint64_t, EvaluationSums>> versions_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_EVALUATION_LEDGER_H_
