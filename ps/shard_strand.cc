#include "ps/shard_strand.h"

#include <utility>

namespace shoal {

bool ShardStrand::Append(Job* job) {
  MutexLock lock(&mutex_);
  while (running_ && num_waiting_ >= kMaxWaiting) has_room_.Wait(&mutex_);
  if (!running_) {
    running_ = true;
    return false;
  }
  job->next_ = nullptr;
  (first_ == nullptr ? first_ : last_->next_) = job;
  last_ = job;
  ++num_waiting_;
  return true;
}

ShardStrand::Job* ShardStrand::Next() {
  MutexLock lock(&mutex_);
  Job* job = first_;
  if (job == nullptr) {
    running_ = false;
  } else {
    first_ = job->next_;
    --num_waiting_;
  }
  has_room_.NotifyOne();
  return job;
}

void ShardStrand::Run(Job* job) {
  bool is_free = false;
  {
    MutexLock lock(&mutex_);
    is_free = !std::exchange(running_, true);
  }
  if (!is_free) {
    job->Keep();
    if (Append(job)) return;
  }
  for (; job != nullptr; job = Next()) job->Run();
}

}  // namespace shoal
