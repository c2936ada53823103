#include "ml/kernels/cuda/nccl_group.h"

#include <nccl.h>

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/clock.h"
#include "base/status_macros.h"
#include "ml/device/communicator_group.h"

namespace shoal::cuda {
namespace {

// For a communicator that does not block, an operation in progress is not an error.
absl::Status ToStatus(ncclResult_t result, absl::string_view call) {
  if (result == ncclSuccess || result == ncclInProgress) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("NCCL: ", call, ": ", ncclGetErrorString(result)));
}

#define RETURN_IF_NCCL_ERROR(call) RETURN_IF_ERROR(ToStatus((call), #call))

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(std::shared_ptr<CudaDevice> device) : device_(std::move(device)) {}
  ~NcclCommunicator() override {
    if (communicator_ != nullptr) ncclCommDestroy(communicator_);
  }

  // Within ncclGroupStart and ncclGroupEnd, for all ranks.
  absl::Status StartOpening(int num_ranks, const ncclUniqueId& id, int rank) {
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 0;
    device_->Activate();
    RETURN_IF_NCCL_ERROR(ncclCommInitRankConfig(&communicator_, num_ranks, id, rank, &config));
    return absl::OkStatus();
  }

  absl::Status ReduceSum(int root, const float* from, float* to, size_t count) override {
    RETURN_IF_NCCL_ERROR(
        ncclReduce(from, to, count, ncclFloat32, ncclSum, root, communicator_, stream()));
    return absl::OkStatus();
  }
  absl::Status Broadcast(int root, void* data, size_t bytes) override {
    RETURN_IF_NCCL_ERROR(
        ncclBroadcast(data, data, bytes, ncclUint8, root, communicator_, stream()));
    return absl::OkStatus();
  }
  absl::Status StartBatch() override {
    RETURN_IF_NCCL_ERROR(ncclGroupStart());
    return absl::OkStatus();
  }
  absl::Status EndBatch() override {
    RETURN_IF_NCCL_ERROR(ncclGroupEnd());
    return absl::OkStatus();
  }
  absl::Status StartClosing() override {
    RETURN_IF_NCCL_ERROR(ncclCommFinalize(communicator_));
    return absl::OkStatus();
  }
  absl::StatusOr<bool> HasStarted() override {
    ncclResult_t state = ncclSuccess;
    RETURN_IF_NCCL_ERROR(ncclCommGetAsyncError(communicator_, &state));
    RETURN_IF_ERROR(ToStatus(state, "a call under way"));
    return state == ncclSuccess;
  }
  void Abort() override {
    if (communicator_ != nullptr) ncclCommAbort(communicator_);
    communicator_ = nullptr;
  }

 private:
  cudaStream_t stream() { return device_->group().stream; }

  const std::shared_ptr<CudaDevice> device_;
  ncclComm_t communicator_ = nullptr;  // null after an abort
};

// Starts to open all ranks in one group of calls, which is necessary on a single thread. AwaitOpen
// waits until they are open.
absl::Status StartOpening(const std::vector<std::unique_ptr<NcclCommunicator>>& communicators) {
  ncclUniqueId id;
  RETURN_IF_NCCL_ERROR(ncclGetUniqueId(&id));
  RETURN_IF_NCCL_ERROR(ncclGroupStart());
  absl::Status status;
  const int num_ranks = static_cast<int>(communicators.size());
  for (int r = 0; r < num_ranks && status.ok(); ++r) {
    status = communicators[static_cast<size_t>(r)]->StartOpening(num_ranks, id, r);
  }
  const absl::Status ended = ToStatus(ncclGroupEnd(), "ncclGroupEnd");
  return status.ok() ? ended : status;
}

struct GroupWithClock {
  explicit GroupWithClock(CommunicatorGroupOptions options)
      : group(WithClock(std::move(options))) {}
  CommunicatorGroupOptions WithClock(CommunicatorGroupOptions options) const {
    options.clock = &clock;
    return options;
  }

  const RealClock clock;
  CommunicatorGroup group;
};

absl::StatusOr<std::shared_ptr<DeviceGroup>> Open(
    const std::vector<std::shared_ptr<CudaDevice>>& devices) {
  std::vector<std::unique_ptr<NcclCommunicator>> communicators;
  for (const auto& device : devices) {
    communicators.push_back(std::make_unique<NcclCommunicator>(device));
  }
  const absl::Status started = StartOpening(communicators);
  CommunicatorGroupOptions options;
  for (size_t r = 0; r < devices.size(); ++r) {
    if (!started.ok()) communicators[r]->Abort();
    options.members.push_back(
        {std::move(communicators[r]), absl::StrCat("GPU ", devices[r]->index()),
         [device = devices[r]](const absl::Status& status) { device->NoteLibraryError(status); }});
  }
  RETURN_IF_ERROR(started);
  auto opened = std::make_shared<GroupWithClock>(std::move(options));
  RETURN_IF_ERROR(opened->group.AwaitOpen());
  return std::shared_ptr<DeviceGroup>(opened, &opened->group);
}

}  // namespace

absl::StatusOr<std::shared_ptr<DeviceGroup>> OpenNcclGroup(
    const std::vector<std::shared_ptr<CudaDevice>>& devices) {
  absl::StatusOr<std::shared_ptr<DeviceGroup>> group = Open(devices);
  (void)cudaGetLastError();  // not an error of a launch: without a group there are plain copies
  return group;
}

}  // namespace shoal::cuda
