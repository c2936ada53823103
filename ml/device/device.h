// A device with memory of its own and three queues of work: what the executor asks of it.
//
// Calls that enqueue return at once; what one queue holds is done in order. A thread that uses a
// device has called Activate(). One thread at a time uses a device, but for Event::Wait, HasPassed
// and status, which any thread may call. After an error nothing that the device holds means
// anything; every later Wait, Synchronize and status returns the first error.
#ifndef SHOAL_ML_DEVICE_DEVICE_H_
#define SHOAL_ML_DEVICE_DEVICE_H_

#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

namespace shoal {

class Device {
 public:
  // kCompute: kernels and what they read. Beside them, kDownload: copies to the host; kGroup: what
  // the device does with others of its type (device_group.h).
  enum class Queue { kCompute, kDownload, kGroup };

  // A point in a queue, recorded anew in every run. A thread of another device that has called Wait
  // or HasPassed calls its own device's Activate() again.
  class Event {
   public:
    virtual ~Event() = default;
    // Waits until the queue has reached the place where the event was last recorded.
    virtual absl::Status Wait() = 0;
    // Returns whether Wait would return at once: the queue is there, or the device has failed.
    virtual bool HasPassed() = 0;
  };

  // Work that was recorded, to be done again and again.
  class Recording {
   public:
    virtual ~Recording() = default;
  };

  virtual ~Device() = default;

  // Memory of the device, 256-byte aligned, contents undefined; for the graph compiler, never
  // during a run. ResourceExhausted says how much was asked for and how much there is.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  virtual void Free(void* data) = 0;
  // Memory of the host that the device copies from and to by itself.
  virtual absl::StatusOr<void*> AllocateStaging(size_t bytes) = 0;
  virtual void FreeStaging(void* data) = 0;

  // Makes this the calling thread's device.
  virtual void Activate() = 0;
  // The compute queue as its kernels know it: KernelContext::stream.
  virtual void* stream() = 0;

  // Copies from the host. The host's bytes must not change until the copy is done.
  virtual void CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  virtual void CopyToHost(Queue queue, void* to, const void* from, size_t bytes) = 0;
  virtual void CopyWithin(void* to, const void* from, size_t bytes) = 0;
  // Copies from another device of the same type.
  virtual void CopyFromPeer(void* to, Device& peer, const void* from, size_t bytes) = 0;

  virtual absl::StatusOr<std::unique_ptr<Event>> NewEvent() = 0;
  virtual void Record(Queue queue, Event* event) = 0;
  // Work enqueued after this call starts after the event, which is of this device or one of its
  // type.
  virtual void Await(Queue queue, const Event& event) = 0;
  // Records work instead of doing it: all that is enqueued on the compute queue from here on, and
  // on the download queue once that has awaited an event of this recording. Only kernels, copies,
  // and events that are recorded and awaited within the recording are allowed. The queues must be
  // empty.
  virtual absl::Status StartRecording() = 0;
  // Returns an error if something could not be recorded; the device is then as before.
  virtual absl::StatusOr<std::unique_ptr<Recording>> FinishRecording() = 0;
  // Enqueues the whole recording on the compute queue: later work there starts after its downloads,
  // too.
  virtual void Replay(Recording* recording) = 0;

  // Waits until all queues are empty.
  virtual absl::Status Synchronize() = 0;
  // The first error of what the queues have done so far; waits for nothing.
  virtual absl::Status status() = 0;
};

// Memory of a device or its staging memory, given back in the end.
class DeviceMemory {
 public:
  DeviceMemory() = default;
  static absl::StatusOr<DeviceMemory> Allocate(std::shared_ptr<Device> device, size_t bytes) {
    return Make(std::move(device), bytes, false);
  }
  static absl::StatusOr<DeviceMemory> AllocateStaging(std::shared_ptr<Device> device,
                                                      size_t bytes) {
    return Make(std::move(device), bytes, true);
  }
  DeviceMemory(DeviceMemory&& other) noexcept { *this = std::move(other); }
  DeviceMemory& operator=(DeviceMemory&& other) noexcept {
    std::swap(device_, other.device_);
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(is_staging_, other.is_staging_);
    return *this;
  }
  ~DeviceMemory() {
    if (data_ == nullptr) return;
    is_staging_ ? device_->FreeStaging(data_) : device_->Free(data_);
  }

  // An address of the device; of the host for staging memory.
  char* data() const { return static_cast<char*>(data_); }
  size_t size() const { return size_; }

 private:
  static absl::StatusOr<DeviceMemory> Make(std::shared_ptr<Device> device, size_t bytes,
                                           bool is_staging) {
    DeviceMemory memory;
    if (bytes == 0) return memory;
    absl::StatusOr<void*> data =
        is_staging ? device->AllocateStaging(bytes) : device->Allocate(bytes);
    if (!data.ok()) return data.status();
    memory.data_ = *data;
    memory.size_ = bytes;
    memory.is_staging_ = is_staging;
    memory.device_ = std::move(device);
    return memory;
  }

  std::shared_ptr<Device> device_;
  void* data_ = nullptr;
  size_t size_ = 0;
  bool is_staging_ = false;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_DEVICE_H_
