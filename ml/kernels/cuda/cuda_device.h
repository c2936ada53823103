// One GPU: three streams, staging memory, a caching allocator, and the handles of the libraries.
#ifndef SHOAL_ML_KERNELS_CUDA_CUDA_DEVICE_H_
#define SHOAL_ML_KERNELS_CUDA_CUDA_DEVICE_H_

#include <cublasLt.h>
#include <cuda_runtime_api.h>
#include <cudnn.h>

#include <map>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

#include "base/mutex.h"
#include "ml/device/device.h"
#include "ml/kernels/cuda/cuda_queue.h"

namespace shoal::cuda {

// Return OK for success, otherwise Internal with the name of the call.
absl::Status ToStatus(cudaError_t error, absl::string_view call);
absl::Status ToStatus(cublasStatus_t status, absl::string_view call);
absl::Status ToStatus(cudnnStatus_t status, absl::string_view call);

#define RETURN_IF_LIBRARY_ERROR(call) RETURN_IF_ERROR(::shoal::cuda::ToStatus((call), #call))

// Returns the number of GPUs; 0 without a driver.
int NumDevices();

// Returns why there is no device; see WhyNoGpus.
std::string WhyNoDevices();

class CudaDevice final : public Device {
 public:
  // Opens a GPU. Returns Unavailable, with the number of GPUs, if `index` is too high.
  static absl::StatusOr<std::shared_ptr<CudaDevice>> Open(int index);
  ~CudaDevice() override;

  absl::StatusOr<void*> Allocate(size_t bytes) override ABSL_LOCKS_EXCLUDED(mutex_);
  void Free(void* data) override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<void*> AllocateStaging(size_t bytes) override;
  void FreeStaging(void* data) override;
  void Activate() override;
  void* stream() override { return &compute_; }
  void CopyFromHost(void* to, const void* from, size_t bytes) override;
  void CopyToHost(Queue queue, void* to, const void* from, size_t bytes) override;
  void CopyWithin(void* to, const void* from, size_t bytes) override;
  void CopyFromPeer(void* to, Device& peer, const void* from, size_t bytes) override;
  absl::StatusOr<std::unique_ptr<Event>> NewEvent() override;
  void Record(Queue queue, Event* event) override;
  void Await(Queue queue, const Event& event) override;
  absl::Status StartRecording() override ABSL_LOCKS_EXCLUDED(mutex_);
  absl::StatusOr<std::unique_ptr<Recording>> FinishRecording() override ABSL_LOCKS_EXCLUDED(mutex_);
  void Replay(Recording* recording) override;
  absl::Status Synchronize() override;
  absl::Status status() override ABSL_LOCKS_EXCLUDED(mutex_);

  // The handles of the libraries, for kernels. dnn() uses the compute stream.
  cublasLtHandle_t blas() const { return blas_; }
  cudnnHandle_t dnn() const { return dnn_; }
  CudaQueue& compute() { return compute_; }
  CudaQueue& group() { return group_; }
  int index() const { return index_; }
  // Record an error that a library returned during a run; status() returns the first one.
  void Note(cublasStatus_t status) ABSL_LOCKS_EXCLUDED(mutex_);
  void Note(cudnnStatus_t status) ABSL_LOCKS_EXCLUDED(mutex_);
  void NoteLibraryError(const absl::Status& status) ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  explicit CudaDevice(int index) : index_(index) {}
  absl::Status Start();
  absl::StatusOr<std::unique_ptr<Recording>> Instantiate(cudaGraph_t graph);
  void NoteErrors(CudaQueue* queue);
  absl::Status ErrorsLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  CudaQueue& GetQueue(Queue queue) {
    return queue == Queue::kCompute ? compute_ : queue == Queue::kDownload ? download_ : group_;
  }
  void ReleaseCache() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  const int index_;
  CudaQueue compute_, download_, group_;
  cudaEvent_t downloaded_ = nullptr;   // marks the end of a recording's download queue
  bool is_download_recorded_ = false;  // used only by the device's thread
  cublasLtHandle_t blas_ = nullptr;
  cudnnHandle_t dnn_ = nullptr;

  Mutex mutex_;
  absl::Status library_status_ ABSL_GUARDED_BY(mutex_);
  bool is_recording_ ABSL_GUARDED_BY(mutex_) = false;  // then no errors of streams may be queried
  std::map<void*, size_t> sizes_ ABSL_GUARDED_BY(mutex_);        // sizes of the blocks in use
  std::multimap<size_t, void*> unused_ ABSL_GUARDED_BY(mutex_);  // free blocks by size, for reuse
};

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_CUDA_DEVICE_H_
