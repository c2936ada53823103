// The interface between the executor and a device that has its own memory and three queues of work.
//
// Calls that enqueue work return at once; the device does the work of one queue in order. A thread
// calls Activate() before it uses a device. Only one thread at a time may use a device, except that
// any thread may call Event::Wait, HasPassed and status. After an error the contents of the
// device's memory are undefined, and every later Wait, Synchronize and status returns the first
// error.
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
  // kCompute: kernels, and copies to the memory that they read. The other two run concurrently with
  // it: kDownload has copies to the host, kGroup the collective operations with other devices of
  // the type (device_group.h).
  enum class Queue { kCompute, kDownload, kGroup };

  // A position in a queue, recorded again in every run. Wait and HasPassed may activate the event's
  // device on the calling thread, so a thread of another device must call its own device's
  // Activate() afterwards.
  class Event {
   public:
    virtual ~Event() = default;
    // Waits until the device has done all work that was in the queue when the event was last
    // recorded.
    virtual absl::Status Wait() = 0;
    // Returns whether Wait would return at once, because the queue has reached the event or the
    // device has failed.
    virtual bool HasPassed() = 0;
  };

  // Recorded work that can be replayed any number of times.
  class Recording {
   public:
    virtual ~Recording() = default;
  };

  virtual ~Device() = default;

  // Allocates memory of the device, 256-byte aligned, with undefined contents. The graph compiler
  // calls it; nothing calls it during a run. ResourceExhausted names the requested and the
  // available bytes.
  virtual absl::StatusOr<void*> Allocate(size_t bytes) = 0;
  virtual void Free(void* data) = 0;
  // Allocates memory of the host that the device can access directly (pinned memory).
  virtual absl::StatusOr<void*> AllocateStaging(size_t bytes) = 0;
  virtual void FreeStaging(void* data) = 0;

  // Makes this the calling thread's device.
  virtual void Activate() = 0;
  // Returns the compute queue in the form that kernels of this device expect in
  // KernelContext::stream.
  virtual void* stream() = 0;

  // Enqueue copies; all sizes are in bytes. CopyFromHost and CopyWithin use the compute queue. The
  // memory of the host must not be changed (CopyFromHost) or read (CopyToHost) until the copy is
  // done.
  virtual void CopyFromHost(void* to, const void* from, size_t bytes) = 0;
  virtual void CopyToHost(Queue queue, void* to, const void* from, size_t bytes) = 0;
  virtual void CopyWithin(void* to, const void* from, size_t bytes) = 0;
  // Enqueues a copy from another device of the same type on the compute queue of this one.
  virtual void CopyFromPeer(void* to, Device& peer, const void* from, size_t bytes) = 0;

  virtual absl::StatusOr<std::unique_ptr<Event>> NewEvent() = 0;
  virtual void Record(Queue queue, Event* event) = 0;
  // Makes the work that is enqueued on `queue` after this call wait for the event, which belongs to
  // this device or to another one of its type.
  virtual void Await(Queue queue, const Event& event) = 0;
  // Starts to record work instead of doing it: all work that is enqueued on the compute queue after
  // this call, and on the download queue after it has awaited an event of this recording. Only
  // kernels, copies, and events that are recorded and awaited within the recording are allowed. The
  // queues must be empty.
  virtual absl::Status StartRecording() = 0;
  // Ends the recording and returns it. If something could not be recorded, returns an error; the
  // device can be used as before.
  virtual absl::StatusOr<std::unique_ptr<Recording>> FinishRecording() = 0;
  // Enqueues the whole recording on the compute queue. Later work on this queue waits for the
  // recording's downloads, too.
  virtual void Replay(Recording* recording) = 0;

  // Waits until all queues are empty.
  virtual absl::Status Synchronize() = 0;
  // Returns the first error of the work done so far, without waiting.
  virtual absl::Status status() = 0;
};

// Owns memory of a device, or staging memory, and frees it. Movable.
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

  // Returns an address of the device or, for staging memory, of the host.
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
