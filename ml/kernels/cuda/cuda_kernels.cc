#include "ml/kernels/cuda/cuda_kernels.h"

#include <nccl.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "base/mutex.h"
#include "base/status_macros.h"
#include "ml/kernels/cuda/convolution_kernels.h"
#include "ml/kernels/cuda/cuda_device.h"
#include "ml/kernels/cuda/dense_kernels.h"
#include "ml/kernels/cuda/gpu_text.h"
#include "ml/kernels/cuda/loop_families.h"
#include "ml/kernels/cuda/nccl_group.h"

namespace shoal {
namespace {

using cuda::LoopOp;

std::vector<absl::Span<const LoopOp>> Families() {
  return {cuda::DenseOps(),
          cuda::ConvolutionOps(),
          cuda::on_device::ElementLoops(),
          cuda::on_device::ReductionLoops(),
          cuda::on_device::ImageLoops(),
          cuda::on_device::NormLoops(),
          cuda::on_device::MoveLoops(),
          cuda::on_device::LookupLoops(),
          cuda::on_device::FeatureLoops()};
}

// A device is opened once; its users share its ownership.
class OpenDevices {
 public:
  absl::StatusOr<std::shared_ptr<cuda::CudaDevice>> Open(int index) ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    return OpenLocked(index);
  }
  absl::StatusOr<std::shared_ptr<DeviceGroup>> OpenGroup(absl::Span<const int> indices)
      ABSL_LOCKS_EXCLUDED(mutex_) {
    MutexLock lock(&mutex_);
    std::weak_ptr<DeviceGroup>& known = groups_[{indices.begin(), indices.end()}];
    if (std::shared_ptr<DeviceGroup> group = known.lock()) return group;
    std::vector<std::shared_ptr<cuda::CudaDevice>> members;
    for (int index : indices) {
      ASSIGN_OR_RETURN(std::shared_ptr<cuda::CudaDevice> device, OpenLocked(index));
      members.push_back(std::move(device));
    }
    ASSIGN_OR_RETURN(std::shared_ptr<DeviceGroup> group, cuda::OpenNcclGroup(members));
    known = group;
    return group;
  }

 private:
  absl::StatusOr<std::shared_ptr<cuda::CudaDevice>> OpenLocked(int index)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (index >= static_cast<int>(devices_.size())) devices_.resize(index + 1);
    if (std::shared_ptr<cuda::CudaDevice> device = devices_[index].lock()) return device;
    ASSIGN_OR_RETURN(std::shared_ptr<cuda::CudaDevice> device, cuda::CudaDevice::Open(index));
    devices_[index] = device;
    return device;
  }

  Mutex mutex_;
  std::vector<std::weak_ptr<cuda::CudaDevice>> devices_ ABSL_GUARDED_BY(mutex_);
  std::map<std::vector<int>, std::weak_ptr<DeviceGroup>> groups_ ABSL_GUARDED_BY(mutex_);
};

bool HasKernel(absl::string_view op, absl::Span<const TensorSpec> inputs,
               absl::Span<const TensorSpec> outputs) {
  // Variables of whole numbers stay with the CPU, as TensorFlow's do.
  if (op == "Variable") return outputs[0].dtype == DataType::kFloat32;
  // The compiler makes these, or lowers them to others.
  for (const char* made : {"Constant", "Placeholder", "Squeeze", "Unsqueeze", "VariableStep"}) {
    if (op == made) return true;
  }
  if (op == "SliceGrad") return HasKernel("Pad", inputs, outputs);
  return cuda::HasLoop(Families(), op, inputs, outputs);
}

// Returns the model of each GPU, empty where it cannot be read.
std::vector<std::string> Models() {
  std::vector<std::string> models(static_cast<size_t>(cuda::NumDevices()));
  for (size_t i = 0; i < models.size(); ++i) {
    cudaDeviceProp properties;
    if (cudaGetDeviceProperties(&properties, static_cast<int>(i)) != cudaSuccess) {
      (void)cudaGetLastError();  // not an error of a launch
      continue;
    }
    models[i] = absl::StrCat(properties.name, " sm_", properties.major, properties.minor);
  }
  return models;
}

std::string LibraryVersions() {
  int runtime = 0;
  cudaRuntimeGetVersion(&runtime);
  int nccl = 0;
  ncclGetVersion(&nccl);
  return absl::StrCat("CUDA ", cuda::VersionText(runtime), ", cuBLASLt ", cublasLtGetVersion(),
                      ", cuDNN ", cudnnGetVersion(), ", NCCL ", nccl);
}

}  // namespace

absl::StatusOr<KernelBackend> CudaKernelBackend() {
  if (cuda::NumDevices() == 0) {
    return absl::UnavailableError(cuda::WhyNoDevices());
  }
  KernelBackend backend;
  backend.device_type = "GPU";
  const std::vector<std::string> models = Models();
  const std::string versions = LibraryVersions();
  backend.libraries = absl::StrCat(cuda::DistinctModels(models), ", ", versions);
  backend.description = absl::StrCat(cuda::CountedModels(models), ", ", versions);
  backend.num_devices = cuda::NumDevices();
  backend.fused_ops = {"BatchNorm", "Conv", "Dense", "DenseGrad", "EmbeddingBagGrad", "MaxPool"};
  backend.has_kernel = HasKernel;
  backend.create_kernel = [](const KernelRequest& request) {
    auto kernel = cuda::CreateLoop(Families(), request);
    // A library that asked for something the GPU lacks may leave its error for the next launch.
    (void)cudaGetLastError();
    return kernel;
  };
  auto devices = std::make_shared<OpenDevices>();
  backend.open_device = [devices](int index) -> absl::StatusOr<std::shared_ptr<Device>> {
    return devices->Open(index);
  };
  backend.open_group = [devices](absl::Span<const int> indices) {
    return devices->OpenGroup(indices);
  };
  return backend;
}

std::vector<std::string> CudaKernelOps() {
  std::vector<std::string> names;
  for (absl::Span<const LoopOp> family : Families()) {
    for (const LoopOp& op : family) names.emplace_back(op.name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace shoal
