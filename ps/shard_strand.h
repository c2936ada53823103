#ifndef SHOAL_PS_SHARD_STRAND_H_
#define SHOAL_PS_SHARD_STRAND_H_

#include "base/mutex.h"

namespace shoal {

// Runs jobs on one part of the slices one after the other. The thread that comes first also runs
// the jobs that others add meanwhile. Thread-safe.
class ShardStrand {
 public:
  class Job {
   public:
    virtual ~Job() = default;
    // Called once; may destroy the job.
    virtual void Run() = 0;
    // Called when another thread may run the job later. The job must copy everything that belongs
    // to the caller of ShardStrand::Run.
    virtual void Keep() = 0;

   private:
    friend class ShardStrand;
    Job* next_ = nullptr;
  };

  // The most jobs that may wait. The number is small because the transports' memory limits do not
  // include them; memory_check.cc does.
  static constexpr int kMaxWaiting = 8;
  // The most jobs at one time: those that wait and the one that runs.
  static constexpr int kMostJobs = kMaxWaiting + 1;

  // Runs `job` on this thread or, if another thread is running jobs, on that one. Blocks while
  // kMaxWaiting jobs wait.
  void Run(Job* job);

 private:
  Job* Next();
  bool Append(Job* job);

  Mutex mutex_;
  CondVar has_room_;
  bool running_ ABSL_GUARDED_BY(mutex_) = false;
  Job* first_ ABSL_GUARDED_BY(mutex_) = nullptr;
  Job* last_ ABSL_GUARDED_BY(mutex_) = nullptr;
  int num_waiting_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace shoal

#endif  // SHOAL_PS_SHARD_STRAND_H_
