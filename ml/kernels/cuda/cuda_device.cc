#include "ml/kernels/cuda/cuda_device.h"

#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"

#include "base/log.h"
#include "base/status_macros.h"
#include "ml/kernels/cuda/gpu_text.h"

namespace shoal::cuda {
namespace {

// Blocks consist of whole pages of the GPU.
constexpr size_t kPage = size_t{2} << 20;

class CudaEvent final : public Device::Event {
 public:
  CudaEvent(cudaEvent_t event, CudaDevice* device) : event_(event), device_(*device) {}
  ~CudaEvent() override { cudaEventDestroy(event_); }

  // The calling thread activates the device, since it would make a context on the first GPU
  // otherwise.
  absl::Status Wait() override {
    device_.Activate();
    device_.compute().Note(cudaEventSynchronize(event_));
    return device_.status();
  }
  bool HasPassed() override {
    device_.Activate();
    const cudaError_t result = cudaEventQuery(event_);
    if (result == cudaErrorNotReady) {
      (void)cudaGetLastError();  // not an error of a launch
      return false;
    }
    device_.compute().Note(result);
    return true;
  }
  cudaEvent_t get() const { return event_; }

 private:
  const cudaEvent_t event_;
  CudaDevice& device_;
};

// An executable CUDA graph.
class CudaRecording final : public Device::Recording {
 public:
  explicit CudaRecording(cudaGraphExec_t graph) : graph_(graph) {}
  ~CudaRecording() override { cudaGraphExecDestroy(graph_); }

  cudaGraphExec_t graph() const { return graph_; }

 private:
  const cudaGraphExec_t graph_;
};

cudaEvent_t EventOf(const Device::Event& event) {
  return static_cast<const CudaEvent&>(event).get();
}

}  // namespace

absl::Status ToStatus(cudaError_t error, absl::string_view call) {
  if (error == cudaSuccess) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("CUDA: ", call, ": ", cudaGetErrorString(error)));
}

absl::Status ToStatus(cublasStatus_t status, absl::string_view call) {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cuBLAS: ", call, ": ", cublasLtGetStatusString(status)));
}

absl::Status ToStatus(cudnnStatus_t status, absl::string_view call) {
  if (status == CUDNN_STATUS_SUCCESS) return absl::OkStatus();
  return absl::InternalError(absl::StrCat("cuDNN: ", call, ": ", cudnnGetErrorString(status)));
}

int NumDevices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess ? count : 0;
}

std::string WhyNoDevices() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t error = cudaGetDeviceCount(&count);
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  return WhyNoGpus(driver, runtime, error == cudaSuccess ? "" : cudaGetErrorString(error));
}

absl::StatusOr<std::shared_ptr<CudaDevice>> CudaDevice::Open(int index) {
  if (index >= NumDevices()) {
    return absl::UnavailableError(absl::StrCat("devices: there is no /gpu:", index,
                                               "; this machine has ", NumDevices(), " GPUs"));
  }
  std::shared_ptr<CudaDevice> device(new CudaDevice(index));
  RETURN_IF_ERROR(device->Start());
  return device;
}

absl::Status CudaDevice::Start() {
  RETURN_IF_LIBRARY_ERROR(cudaSetDevice(index_));
  RETURN_IF_LIBRARY_ERROR(cudaStreamCreateWithFlags(&compute_.stream, cudaStreamNonBlocking));
  RETURN_IF_LIBRARY_ERROR(cudaStreamCreateWithFlags(&download_.stream, cudaStreamNonBlocking));
  RETURN_IF_LIBRARY_ERROR(cudaStreamCreateWithFlags(&group_.stream, cudaStreamNonBlocking));
  RETURN_IF_LIBRARY_ERROR(cudaEventCreateWithFlags(&downloaded_, cudaEventDisableTiming));
  RETURN_IF_LIBRARY_ERROR(cublasLtCreate(&blas_));
  RETURN_IF_LIBRARY_ERROR(cudnnCreate(&dnn_));
  RETURN_IF_LIBRARY_ERROR(cudnnSetStream(dnn_, compute_.stream));
  // Copies between GPUs take the direct way where there is one.
  for (int peer = 0; peer < NumDevices(); ++peer) {
    int can_access = 0;
    if (peer == index_ || cudaDeviceCanAccessPeer(&can_access, index_, peer) != cudaSuccess) {
      continue;
    }
    if (can_access != 0 && cudaDeviceEnablePeerAccess(peer, 0) != cudaSuccess) {
      (void)cudaGetLastError();  // already, or through the host then
    }
  }
  return absl::OkStatus();
}

CudaDevice::~CudaDevice() {
  cudaSetDevice(index_);
  if (dnn_ != nullptr) cudnnDestroy(dnn_);
  if (blas_ != nullptr) cublasLtDestroy(blas_);
  if (compute_.stream != nullptr) cudaStreamDestroy(compute_.stream);
  if (download_.stream != nullptr) cudaStreamDestroy(download_.stream);
  if (group_.stream != nullptr) cudaStreamDestroy(group_.stream);
  if (downloaded_ != nullptr) cudaEventDestroy(downloaded_);
  MutexLock lock(&mutex_);
  ReleaseCache();
}

void CudaDevice::ReleaseCache() {
  for (const auto& [size, data] : unused_) cudaFree(data);
  unused_.clear();
}

absl::StatusOr<void*> CudaDevice::Allocate(size_t bytes) {
  const size_t size = (bytes + kPage - 1) / kPage * kPage;
  MutexLock lock(&mutex_);
  const auto unused = unused_.lower_bound(size);
  if (unused != unused_.end() && unused->first <= 2 * size) {
    void* data = unused->second;
    sizes_[data] = unused->first;
    unused_.erase(unused);
    return data;
  }
  cudaSetDevice(index_);
  void* data = nullptr;
  cudaError_t error = cudaMalloc(&data, size);
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    ReleaseCache();
    error = cudaMalloc(&data, size);
  }
  if (error == cudaErrorMemoryAllocation) {
    (void)cudaGetLastError();
    size_t free = 0, total = 0;
    cudaMemGetInfo(&free, &total);
    return absl::ResourceExhaustedError(absl::StrCat("/gpu:", index_, " has ", free >> 20, " of ",
                                                     total >> 20, " MiB left, ", size >> 20,
                                                     " MiB are needed; take a smaller batch_size"));
  }
  RETURN_IF_ERROR(ToStatus(error, "cudaMalloc"));
  sizes_[data] = size;
  return data;
}

void CudaDevice::Free(void* data) {
  MutexLock lock(&mutex_);
  const auto used = sizes_.find(data);
  CHECK(used != sizes_.end()) << "memory that is not this device's";
  unused_.emplace(used->second, data);
  sizes_.erase(used);
}

absl::StatusOr<void*> CudaDevice::AllocateStaging(size_t bytes) {
  cudaSetDevice(index_);
  void* data = nullptr;
  RETURN_IF_LIBRARY_ERROR(cudaHostAlloc(&data, bytes, cudaHostAllocPortable));
  return data;
}

void CudaDevice::FreeStaging(void* data) { cudaFreeHost(data); }

void CudaDevice::Activate() { compute_.Note(cudaSetDevice(index_)); }

void CudaDevice::CopyFromHost(void* to, const void* from, size_t bytes) {
  compute_.Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyHostToDevice, compute_.stream));
}

void CudaDevice::CopyToHost(Queue queue, void* to, const void* from, size_t bytes) {
  CudaQueue& on = GetQueue(queue);
  on.Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToHost, on.stream));
}

void CudaDevice::CopyWithin(void* to, const void* from, size_t bytes) {
  compute_.Note(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, compute_.stream));
}

void CudaDevice::CopyFromPeer(void* to, Device& peer, const void* from, size_t bytes) {
  const int peer_index = static_cast<CudaDevice&>(peer).index_;
  compute_.Note(cudaMemcpyPeerAsync(to, index_, from, peer_index, bytes, compute_.stream));
}

absl::StatusOr<std::unique_ptr<Device::Event>> CudaDevice::NewEvent() {
  cudaSetDevice(index_);
  cudaEvent_t event = nullptr;
  RETURN_IF_LIBRARY_ERROR(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
  return {std::make_unique<CudaEvent>(event, this)};
}

void CudaDevice::Record(Queue queue, Event* event) {
  compute_.Note(cudaEventRecord(EventOf(*event), GetQueue(queue).stream));
}

void CudaDevice::Await(Queue queue, const Event& event) {
  if (queue == Queue::kDownload) is_download_recorded_ = true;
  compute_.Note(cudaStreamWaitEvent(GetQueue(queue).stream, EventOf(event), 0));
}

absl::Status CudaDevice::StartRecording() {
  RETURN_IF_ERROR(Synchronize());
  is_download_recorded_ = false;
  MutexLock lock(&mutex_);
  const cudaError_t error =
      cudaStreamBeginCapture(compute_.stream, cudaStreamCaptureModeThreadLocal);
  is_recording_ = error == cudaSuccess;
  if (!is_recording_) (void)cudaGetLastError();  // not an error of a launch
  return ToStatus(error, "cudaStreamBeginCapture");
}

// Uploads the graph to the GPU now, so that the first replay is as fast as the others. After a
// failure it clears CUDA's last error, which the next launch would otherwise return as its own.
absl::StatusOr<std::unique_ptr<Device::Recording>> CudaDevice::Instantiate(cudaGraph_t graph) {
  cudaGraphExec_t executable = nullptr;
  absl::Status status = ToStatus(cudaGraphInstantiate(&executable, graph, 0), "a graph");
  if (status.ok()) {
    auto recording = std::make_unique<CudaRecording>(executable);
    status = ToStatus(cudaGraphUpload(executable, compute_.stream), "a graph's upload");
    if (status.ok()) return {std::move(recording)};
  }
  (void)cudaGetLastError();
  return status;
}

// Errors during the recording belong to the recording, not to the device.
absl::StatusOr<std::unique_ptr<Device::Recording>> CudaDevice::FinishRecording() {
  if (is_download_recorded_) {
    compute_.Note(cudaEventRecord(downloaded_, download_.stream));
    compute_.Note(cudaStreamWaitEvent(compute_.stream, downloaded_, 0));
  }
  cudaGraph_t graph = nullptr;
  compute_.Note(cudaStreamEndCapture(compute_.stream, &graph));
  absl::Status status;
  {
    MutexLock lock(&mutex_);
    is_recording_ = false;
    status = ErrorsLocked();
    library_status_ = absl::OkStatus();
    compute_.error = download_.error = cudaSuccess;
    (void)cudaGetLastError();
  }
  const auto destroy = absl::MakeCleanup([graph] {
    if (graph != nullptr) cudaGraphDestroy(graph);
  });
  RETURN_IF_ERROR(status);
  return Instantiate(graph);
}

void CudaDevice::Replay(Recording* recording) {
  compute_.Note(cudaGraphLaunch(static_cast<CudaRecording*>(recording)->graph(), compute_.stream));
}

absl::Status CudaDevice::Synchronize() {
  compute_.Note(cudaStreamSynchronize(compute_.stream));
  compute_.Note(cudaStreamSynchronize(group_.stream));
  compute_.Note(cudaStreamSynchronize(download_.stream));
  return status();
}

void CudaDevice::Note(cublasStatus_t status) { NoteLibraryError(ToStatus(status, "a product")); }

void CudaDevice::Note(cudnnStatus_t status) { NoteLibraryError(ToStatus(status, "a convolution")); }

void CudaDevice::NoteLibraryError(const absl::Status& status) {
  if (status.ok()) return;
  MutexLock lock(&mutex_);
  if (library_status_.ok()) library_status_ = status;
  compute_.Note(cudaErrorUnknown);
}

// An error of a kernel is returned by the next call on its stream. A GPU that waits for this one in
// its own queue makes no such call, so this device queries its stream.
void CudaDevice::NoteErrors(CudaQueue* queue) {
  const cudaError_t error = cudaStreamQuery(queue->stream);
  if (error == cudaErrorNotReady) {
    (void)cudaGetLastError();  // not an error of a launch
  } else {
    queue->Note(error);
  }
}

absl::Status CudaDevice::status() {
  MutexLock lock(&mutex_);
  if (!is_recording_) {
    NoteErrors(&compute_);
    NoteErrors(&download_);
    NoteErrors(&group_);
  }
  return ErrorsLocked();
}

absl::Status CudaDevice::ErrorsLocked() {
  if (!library_status_.ok()) return library_status_;
  RETURN_IF_ERROR(ToStatus(compute_.error.load(), "a step on the GPU"));
  RETURN_IF_ERROR(ToStatus(group_.error.load(), "a sum over GPUs"));
  return ToStatus(download_.error.load(), "a copy to the host");
}

}  // namespace shoal::cuda
