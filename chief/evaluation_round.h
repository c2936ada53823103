#ifndef SHOAL_CHIEF_EVALUATION_ROUND_H_
#define SHOAL_CHIEF_EVALUATION_ROUND_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace shoal {

// Hands out the blocks of the test split at one version while nobody pushes (ASYNC): every block
// to one worker at a time, to another when that one dies, until all are evaluated.
// One thread at a time.
class EvaluationRound {
 public:
  bool is_active() const { return left_ > 0; }
  uint64_t version() const { return version_; }

  // Needs num_blocks > 0.
  void Start(uint64_t version, uint64_t num_blocks);

  // Gives the worker its share of the blocks that nobody has, if it has none, and returns all that
  // it has. `num_workers` >= 1 share the blocks.
  std::vector<uint64_t> Take(uint32_t worker, uint64_t num_workers);

  // False if the block is not wanted (another version, repeated, no such block).
  bool Finish(uint64_t version, uint64_t block);

  // The worker's blocks are for others.
  void Release(uint32_t worker);

 private:
  uint64_t version_ = 0;
  uint64_t left_ = 0;                     // blocks not evaluated
  std::set<uint64_t> free_;               // blocks that nobody has
  std::map<uint64_t, uint32_t> in_hand_;  // block -> worker
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_EVALUATION_ROUND_H_
