#include "chief/ledgers/evaluation_round.h"

#include <algorithm>

#include "base/log.h"

namespace shoal {

void EvaluationRound::Start(uint64_t version, uint64_t num_blocks) {
  CHECK(!is_active() && num_blocks > 0) << "evaluation of " << num_blocks << " blocks";
  version_ = version;
  left_ = num_blocks;
  for (uint64_t block = 0; block < num_blocks; ++block) free_.insert(free_.end(), block);
}

std::vector<uint64_t> EvaluationRound::Take(uint32_t worker, uint64_t num_workers) {
  std::vector<uint64_t> blocks;
  for (const auto& [block, holder] : given_) {
    if (holder == worker) blocks.push_back(block);
  }
  if (!blocks.empty()) return blocks;
  // Half of an even share at a time: a slow worker leaves the rest to others.
  for (uint64_t share = free_.size() / (2 * num_workers) + 1; share > 0 && !free_.empty();
       --share) {
    blocks.push_back(*free_.begin());
    given_[blocks.back()] = worker;
    free_.erase(free_.begin());
  }
  return blocks;
}

bool EvaluationRound::Finish(uint64_t version, uint64_t block) {
  if (!is_active() || version != version_) return false;
  // The sums are the same at the same version, whichever worker evaluated the block.
  if (given_.erase(block) + free_.erase(block) == 0) return false;
  --left_;
  return true;
}

void EvaluationRound::Release(uint32_t worker) {
  for (auto it = given_.begin(); it != given_.end();) {
    if (it->second == worker) {
      free_.insert(it->first);
      it = given_.erase(it);
    } else {
      ++it;
    }
  }
}

}  // namespace shoal
