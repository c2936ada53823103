// GPUs that add and spread values with NCCL, in one process.
#ifndef SHOAL_ML_KERNELS_CUDA_NCCL_GROUP_H_
#define SHOAL_ML_KERNELS_CUDA_NCCL_GROUP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/device_group.h"
#include "ml/kernels/cuda/cuda_device.h"

namespace shoal::cuda {

// Two devices or more, each once; kept as long as the group. Internal: what NCCL said.
// DeadlineExceeded: which device is not there in time. The communicators do not block: every wait
// for another device is bounded, see CommunicatorGroup.
absl::StatusOr<std::shared_ptr<DeviceGroup>> OpenNcclGroup(
    const std::vector<std::shared_ptr<CudaDevice>>& devices);

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_NCCL_GROUP_H_
