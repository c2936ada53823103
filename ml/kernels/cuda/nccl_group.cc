#include "ml/kernels/cuda/nccl_group.h"

#include <nccl.h>

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/mutex.h"
#include "base/status_macros.h"

namespace shoal::cuda {
namespace {

absl::Status StatusOf(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("NCCL: ", call, ": ", ncclGetErrorString(result)));
}

class NcclGroup final : public DeviceGroup {
 public:
  explicit NcclGroup(std::vector<std::shared_ptr<CudaDevice>> devices) {
    for (auto& device : devices) {
      ranks_.push_back(std::make_unique<Rank>());
      ranks_.back()->device = std::move(device);
    }
  }
  ~NcclGroup() override {
    for (auto& rank : ranks_) {
      MutexLock lock(&rank->mutex);
      if (rank->communicator != nullptr) ncclCommDestroy(rank->communicator);
    }
  }

  absl::Status Start() {
    std::vector<int> indices;
    for (auto& rank : ranks_) indices.push_back(rank->device->index());
    std::vector<ncclComm_t> communicators(ranks_.size());
    const absl::Status status = StatusOf(
        ncclCommInitAll(communicators.data(), static_cast<int>(ranks_.size()), indices.data()),
        "ncclCommInitAll");
    (void)cudaGetLastError();  // not an error of a launch: without a group there are plain copies
    RETURN_IF_ERROR(status);
    for (size_t r = 0; r < ranks_.size(); ++r) {
      MutexLock lock(&ranks_[r]->mutex);
      ranks_[r]->communicator = communicators[r];
    }
    return absl::OkStatus();
  }

  void ReduceSum(int rank, int root, const float* from, float* to, size_t count) override {
    Call(rank, "ncclReduce", [=](ncclComm_t communicator, cudaStream_t stream) {
      return ncclReduce(from, to, count, ncclFloat32, ncclSum, root, communicator, stream);
    });
  }
  void Broadcast(int rank, int root, void* data, size_t bytes) override {
    Call(rank, "ncclBroadcast", [=](ncclComm_t communicator, cudaStream_t stream) {
      return ncclBroadcast(data, data, bytes, ncclUint8, root, communicator, stream);
    });
  }
  // A batch is the calling thread's, which is one rank's. No communicator goes away within it: the
  // calls are made at its end.
  void StartBatch(int index) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Rank& rank = *ranks_[index];
    rank.mutex.Lock();
    rank.is_batching = true;
    rank.batch_status = absl::OkStatus();
    if (rank.communicator == nullptr) return;
    rank.batch_status = StatusOf(ncclGroupStart(), "ncclGroupStart");
    rank.has_group = rank.batch_status.ok();
  }
  void EndBatch(int index) override ABSL_NO_THREAD_SAFETY_ANALYSIS {
    Rank& rank = *ranks_[index];
    if (rank.has_group) {
      const absl::Status ended = StatusOf(ncclGroupEnd(), "ncclGroupEnd");
      if (rank.batch_status.ok()) rank.batch_status = ended;
    }
    rank.is_batching = rank.has_group = false;
    const absl::Status status = rank.batch_status;
    rank.mutex.Unlock();
    if (!status.ok()) Fail(&rank, status);
  }

  // Ends the kernels that wait for a rank.
  void Abort() override {
    for (auto& rank : ranks_) {
      MutexLock lock(&rank->mutex);
      if (rank->communicator != nullptr) ncclCommAbort(rank->communicator);
      rank->communicator = nullptr;
    }
  }

 private:
  struct Rank {
    std::shared_ptr<CudaDevice> device;
    Mutex mutex;
    ncclComm_t communicator ABSL_GUARDED_BY(mutex) = nullptr;  // null after an abort
    // Of the rank's thread, which holds the mutex while it batches.
    bool is_batching = false, has_group = false;
    absl::Status batch_status;
  };

  template <typename Collective>
  void Call(int index, absl::string_view name, const Collective& collective) {
    Rank& rank = *ranks_[index];
    if (rank.is_batching) {
      rank.mutex.AssertHeld();
      if (rank.has_group && rank.batch_status.ok()) {
        rank.batch_status = CallLocked(&rank, name, collective);
      }
      return;
    }
    absl::Status status;
    {
      MutexLock lock(&rank.mutex);
      if (rank.communicator != nullptr) status = CallLocked(&rank, name, collective);
    }
    if (!status.ok()) Fail(&rank, status);
  }

  template <typename Collective>
  absl::Status CallLocked(Rank* rank, absl::string_view name, const Collective& collective)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(rank->mutex) {
    return StatusOf(collective(rank->communicator, rank->device->group().stream), name);
  }

  // The others would wait for this rank.
  void Fail(Rank* rank, const absl::Status& status) {
    rank->device->NoteLibraryError(status);
    Abort();
  }

  std::vector<std::unique_ptr<Rank>> ranks_;
};

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceGroup>> OpenNcclGroup(
    std::vector<std::shared_ptr<CudaDevice>> devices) {
  auto group = std::make_shared<NcclGroup>(std::move(devices));
  RETURN_IF_ERROR(group->Start());
  return std::shared_ptr<DeviceGroup>(std::move(group));
}

}  // namespace shoal::cuda
