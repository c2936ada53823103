#include "ml/device/simulated_group.h"

#include <cstring>
#include <map>
#include <utility>

#include "base/log.h"
#include "base/mutex.h"
#include "ml/device/simulated_memory.h"

namespace shoal {
namespace {

using simulated::Untagged;

// Ranks exchange values in memory. Each one announces its call. If the calls of the ranks differ,
// which would hang GPUs, the process ends.
class SimulatedGroup final : public DeviceGroup {
 public:
  SimulatedGroup(std::vector<std::shared_ptr<SimulatedRank>> ranks,
                 const SimulatedDeviceOptions& options)
      : ranks_(std::move(ranks)),
        traffic_(*options.traffic),
        failing_call_(options.failing_group_call),
        calls_(ranks_.size(), 0),
        has_failed_(ranks_.size(), false) {}

  void ReduceSum(int rank, int root, const float* from, float* to, size_t count) override {
    const float* own = Untagged(from);
    float* sum = rank == root ? Untagged(to) : nullptr;
    Enqueue(rank, [=] {
      Meet(rank, root, count * sizeof(float), false, own, [&](const Round& round) {
        if (rank != root) return;
        ++traffic_.group_sums;
        for (size_t i = 0; i < count; ++i) {
          float total = 0;
          for (size_t r = 0; r < ranks_.size(); ++r) {
            const float term = static_cast<const float*>(round.data[r])[i];
            total = r == 0 ? term : total + term;
          }
          sum[i] = total;
        }
      });
    });
  }
  void Broadcast(int rank, int root, void* data, size_t bytes) override {
    void* own = Untagged(data);
    Enqueue(rank, [=] {
      Meet(rank, root, bytes, true, own, [&](const Round& round) {
        if (rank == root) {
          ++traffic_.broadcasts;
        } else {
          std::memcpy(own, round.data[root], bytes);
        }
      });
    });
  }
  void StartBatch(int /*rank*/) override { ++traffic_.batches; }
  void EndBatch(int /*rank*/) override {}
  void Abort() override {
    {
      MutexLock lock(&mutex_);
      is_aborted_ = true;
    }
    changed_.NotifyAll();
  }

 private:
  // One call of all ranks.
  struct Round {
    int root = -1;
    size_t bytes = 0;
    bool is_broadcast = false;
    std::vector<const void*> data;
    size_t num_here = 0, num_done = 0;
  };

  void Enqueue(int rank, absl::AnyInvocable<void()> work) {
    {
      MutexLock lock(&mutex_);
      if (num_calls_++ == failing_call_) {
        has_failed_[rank] = true;
        ranks_[rank]->Fail("the simulated group has failed");
      }
      if (has_failed_[rank]) work = [this] { AwaitAbort(); };
    }
    ranks_[rank]->EnqueueGroupCall(std::move(work));
  }

  void AwaitAbort() {
    MutexLock lock(&mutex_);
    while (!is_aborted_) changed_.Wait(&mutex_);
  }

  template <typename Work>
  void Meet(int rank, int root, size_t bytes, bool is_broadcast, const void* data,
            const Work& work) {
    MutexLock lock(&mutex_);
    const int64_t call = calls_[rank]++;
    Round& round = rounds_[call];
    if (round.num_here == 0) {
      round = {root, bytes, is_broadcast, std::vector<const void*>(ranks_.size()), 0, 0};
    }
    CHECK(round.root == root && round.bytes == bytes && round.is_broadcast == is_broadcast)
        << "rank " << rank << " calls something else than the others";
    round.data[rank] = data;
    ++round.num_here;
    changed_.NotifyAll();
    while (round.num_here < ranks_.size() && !is_aborted_) changed_.Wait(&mutex_);
    if (is_aborted_) return;
    work(round);
    ++round.num_done;
    changed_.NotifyAll();
    while (round.num_done < ranks_.size() && !is_aborted_) changed_.Wait(&mutex_);
    if (--round.num_here == 0) rounds_.erase(call);
  }

  const std::vector<std::shared_ptr<SimulatedRank>> ranks_;
  SimulatedTraffic& traffic_;
  const int64_t failing_call_;
  Mutex mutex_;
  CondVar changed_;
  std::vector<int64_t> calls_ ABSL_GUARDED_BY(mutex_);    // indexed by rank
  std::vector<bool> has_failed_ ABSL_GUARDED_BY(mutex_);  // indexed by rank
  int64_t num_calls_ ABSL_GUARDED_BY(mutex_) = 0;
  std::map<int64_t, Round> rounds_ ABSL_GUARDED_BY(mutex_);
  bool is_aborted_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

std::shared_ptr<DeviceGroup> NewSimulatedGroup(std::vector<std::shared_ptr<SimulatedRank>> ranks,
                                               const SimulatedDeviceOptions& options) {
  return std::make_shared<SimulatedGroup>(std::move(ranks), options);
}

}  // namespace shoal
