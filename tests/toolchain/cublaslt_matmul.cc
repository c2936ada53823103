#include "tests/toolchain/cublaslt_matmul.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <type_traits>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "tests/toolchain/fill.h"

namespace shoal {
namespace {

#define RETURN_IF_CUDA_ERROR(call)                                                     \
  do {                                                                                 \
    const cudaError_t error = (call);                                                  \
    if (error != cudaSuccess) {                                                        \
      return absl::InternalError(absl::StrCat(#call ": ", cudaGetErrorString(error))); \
    }                                                                                  \
  } while (false)

#define RETURN_IF_CUBLAS_ERROR(call)                                                         \
  do {                                                                                       \
    const cublasStatus_t status = (call);                                                    \
    if (status != CUBLAS_STATUS_SUCCESS) {                                                   \
      return absl::InternalError(absl::StrCat(#call ": ", cublasLtGetStatusString(status))); \
    }                                                                                        \
  } while (false)

struct DeviceFree {
  void operator()(float* data) const { cudaFree(data); }
};
using DeviceFloats = std::unique_ptr<float, DeviceFree>;

struct Release {
  void operator()(cublasLtHandle_t handle) const { cublasLtDestroy(handle); }
  void operator()(cublasLtMatmulDesc_t operation) const { cublasLtMatmulDescDestroy(operation); }
  void operator()(cublasLtMatrixLayout_t layout) const { cublasLtMatrixLayoutDestroy(layout); }
};
template <typename T>
using Owned = std::unique_ptr<std::remove_pointer_t<T>, Release>;

absl::StatusOr<DeviceFloats> NewFilled(int size, float value) {
  void* data = nullptr;
  RETURN_IF_CUDA_ERROR(cudaMalloc(&data, size * sizeof(float)));
  DeviceFloats owned(static_cast<float*>(data));
  RETURN_IF_CUDA_ERROR(Fill(owned.get(), size, value, nullptr));
  return owned;
}

absl::Status Multiply(int size, const float* a, const float* b, float* c) {
  cublasLtHandle_t handle;
  RETURN_IF_CUBLAS_ERROR(cublasLtCreate(&handle));
  const Owned<cublasLtHandle_t> owned_handle(handle);
  cublasLtMatmulDesc_t operation;
  RETURN_IF_CUBLAS_ERROR(cublasLtMatmulDescCreate(&operation, CUBLAS_COMPUTE_32F, CUDA_R_32F));
  const Owned<cublasLtMatmulDesc_t> owned_operation(operation);
  cublasLtMatrixLayout_t layout;
  RETURN_IF_CUBLAS_ERROR(cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, size, size, size));
  const Owned<cublasLtMatrixLayout_t> owned_layout(layout);
  const float one = 1.0f;
  const float zero = 0.0f;
  RETURN_IF_CUBLAS_ERROR(cublasLtMatmul(handle, operation, &one, a, layout, b, layout, &zero, c,
                                        layout, c, layout, nullptr, nullptr, 0, nullptr));
  RETURN_IF_CUDA_ERROR(cudaDeviceSynchronize());
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<float>> MultiplyFilled(int size, float a, float b) {
  int num_devices = 0;
  if (cudaGetDeviceCount(&num_devices) != cudaSuccess || num_devices == 0) {
    return absl::UnavailableError("this machine has no usable GPU");
  }
  absl::StatusOr<DeviceFloats> device_a = NewFilled(size * size, a);
  if (!device_a.ok()) return device_a.status();
  absl::StatusOr<DeviceFloats> device_b = NewFilled(size * size, b);
  if (!device_b.ok()) return device_b.status();
  absl::StatusOr<DeviceFloats> device_c = NewFilled(size * size, 0.0f);
  if (!device_c.ok()) return device_c.status();
  const absl::Status status = Multiply(size, device_a->get(), device_b->get(), device_c->get());
  if (!status.ok()) return status;
  std::vector<float> result(size * size);
  RETURN_IF_CUDA_ERROR(cudaMemcpy(result.data(), device_c->get(), result.size() * sizeof(float),
                                  cudaMemcpyDeviceToHost));
  return result;
}

}  // namespace shoal
