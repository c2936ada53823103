// A DeviceGroup of GPUs of this process, which uses NCCL.
#ifndef SHOAL_ML_KERNELS_CUDA_NCCL_GROUP_H_
#define SHOAL_ML_KERNELS_CUDA_NCCL_GROUP_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/device_group.h"
#include "ml/kernels/cuda/cuda_device.h"

namespace shoal::cuda {

// Opens a group of at least two different devices, which it keeps open. Returns Internal with
// NCCL's error, or DeadlineExceeded with the device that did not connect in time. Every wait for
// another device has a timeout, see CommunicatorGroup.
absl::StatusOr<std::shared_ptr<DeviceGroup>> OpenNcclGroup(
    const std::vector<std::shared_ptr<CudaDevice>>& devices);

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_NCCL_GROUP_H_
