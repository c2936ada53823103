#include "runtime/variables/step_contributions.h"

#include <cstring>
#include <utility>

namespace shoal {

void StepContributions::Restart(uint32_t max_positions, StagingPool* staging) {
  for (Waiting& waiting : waiting_) staging->Release(std::move(waiting.block));
  waiting_.clear();
  waiting_.resize(max_positions);
  staging_ = staging;
}

bool StepContributions::TakeRoom(uint32_t position, uint64_t bytes) {
  StagingPool::Block& block = waiting_[position].block;
  if (block.data != nullptr && block.bytes == bytes) return true;
  staging_->Release(std::move(block));
  block = staging_->Take(bytes);
  return block.data != nullptr;
}

void StepContributions::ReleaseRoom(uint32_t position) {
  staging_->Release(std::move(waiting_[position].block));
}

bool StepContributions::Keep(uint32_t position, const Payload& payload, uint32_t examples) {
  if (!TakeRoom(position, payload.bytes)) return false;
  Waiting& waiting = waiting_[position];
  if (payload.bytes > 0) std::memcpy(waiting.block.data.get(), payload.data, payload.bytes);
  waiting.kind = payload.kind;
  waiting.examples = examples;
  sync_.Keep(position);
  return true;
}

bool StepContributions::IsWholeStep(const Payload& payload) const {
  return sync_.num_positions() == 1 && payload.kind == ContributionKind::kDense &&
         reinterpret_cast<uintptr_t>(payload.data) % alignof(float) == 0;
}

void StepContributions::AddNext(const Payload& payload, uint32_t examples) {
  // A step planned with one batch is that batch's mean, bit for bit.
  const float weight = sync_.num_positions() == 1 ? 1.0f : static_cast<float>(examples);
  sum_.Add(payload, weight, sync_.num_added() == 0);
  sync_.AddNext(examples);
}

bool StepContributions::AddReady(absl::FunctionRef<bool(uint32_t position)> is_skipped) {
  while (!sync_.AllThrough()) {
    const uint32_t position = sync_.next_position();
    if (sync_.HasArrived(position)) {
      const Waiting& waiting = waiting_[position];
      AddNext({waiting.kind, waiting.block.data.get(), waiting.block.bytes}, waiting.examples);
    } else if (is_skipped(position)) {
      sync_.PassOverNext();
    } else {
      return false;
    }
    ReleaseRoom(position);
  }
  return true;
}

float StepContributions::MeanScale() const {
  if (sync_.num_positions() == 1) return 1.0f;
  return 1.0f / static_cast<float>(sync_.examples());
}

}  // namespace shoal
