#ifndef SHOAL_CHIEF_LEDGERS_EVALUATION_ROUND_H_
#define SHOAL_CHIEF_LEDGERS_EVALUATION_ROUND_H_

#include <cstdint>
#include <map>
#include <set>
#include <vector>

namespace shoal {

// ASYNC: distributes the blocks of the test split at one version among the workers while no worker
// pushes. A block belongs to one worker at a time, and to another one if that worker dies, until
// all blocks are evaluated. Not thread-safe.
class EvaluationRound {
 public:
  bool is_active() const { return left_ > 0; }
  uint64_t version() const { return version_; }

  // Needs num_blocks > 0.
  void Start(uint64_t version, uint64_t num_blocks);

  // Gives a worker without blocks its share of the free ones, and returns all blocks that it has.
  // `num_workers` >= 1 share the blocks.
  std::vector<uint64_t> Take(uint32_t worker, uint64_t num_workers);

  // Returns false if the block is not needed (another version, repeated, no such block).
  bool Finish(uint64_t version, uint64_t block);

  // Takes the worker's blocks away, so that other workers get them.
  void Release(uint32_t worker);

 private:
  uint64_t version_ = 0;
  uint64_t left_ = 0;                   // Blocks that are not evaluated.
  std::set<uint64_t> free_;             // Blocks that no worker has.
  std::map<uint64_t, uint32_t> given_;  // The worker of each other block.
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_LEDGERS_EVALUATION_ROUND_H_
