#ifndef SHOAL_RUNTIME_VARIABLES_VERSION_BUFFER_H_
#define SHOAL_RUNTIME_VARIABLES_VERSION_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shoal {

// Floats with a reference count, 64-byte aligned. Whoever fills it is alone with it; from then on
// it is immutable for as long as anybody else holds a reference: a reply on its way, a snapshot
// being written.
class VersionBuffer {
 public:
  VersionBuffer(const VersionBuffer&) = delete;
  VersionBuffer& operator=(const VersionBuffer&) = delete;

  float* data() { return data_; }
  const float* data() const { return data_; }
  size_t size() const { return size_; }  // floats

 private:
  friend class VersionBufferRef;
  friend class VersionBufferPool;

  explicit VersionBuffer(size_t size);
  ~VersionBuffer();

  // Not more than one reference besides the caller's own?
  bool IsShared(int own_references) const {
    return references_.load(std::memory_order_acquire) > own_references;
  }

  std::atomic<int> references_{0};
  const size_t size_;
  float* const data_;
};

// A counted reference. Copying and dropping are thread-safe and never allocate.
class VersionBufferRef {
 public:
  VersionBufferRef() = default;
  explicit VersionBufferRef(VersionBuffer* buffer) : buffer_(buffer) {
    if (buffer_ != nullptr) buffer_->references_.fetch_add(1, std::memory_order_relaxed);
  }
  VersionBufferRef(const VersionBufferRef& other) : VersionBufferRef(other.buffer_) {}
  VersionBufferRef(VersionBufferRef&& other) noexcept
      : buffer_(std::exchange(other.buffer_, nullptr)) {}
  VersionBufferRef& operator=(VersionBufferRef other) noexcept {
    std::swap(buffer_, other.buffer_);
    return *this;
  }
  ~VersionBufferRef() { Drop(); }

  void Reset() { Drop(); }
  explicit operator bool() const { return buffer_ != nullptr; }
  VersionBuffer& operator*() const { return *buffer_; }
  VersionBuffer* operator->() const { return buffer_; }
  VersionBuffer* get() const { return buffer_; }

  // Does anybody hold the buffer besides this reference and its pool?
  bool IsShared() const { return buffer_->IsShared(2); }

 private:
  void Drop();

  VersionBuffer* buffer_ = nullptr;
};

// Buffers of one size, used again once nobody but the pool holds them, so that a steady state does
// not allocate. Buffers that a peak has left over go one by one, once more than one has been free
// at many calls of Acquire in a row. A buffer that is still held when the pool goes away lives as
// long as its last reference. Acquire wants one thread at a time; references may be dropped on any
// thread meanwhile.
class VersionBufferPool {
 public:
  explicit VersionBufferPool(size_t num_floats) : num_floats_(num_floats) {}
  VersionBufferPool(VersionBufferPool&&) = default;

  // Contents are undefined, but were touched once.
  VersionBufferRef Acquire();

  size_t num_floats() const { return num_floats_; }
  size_t num_buffers() const { return buffers_.size(); }

 private:
  const size_t num_floats_;
  int calls_with_spare_ = 0;               // of Acquire, the last ones in a row
  std::vector<VersionBufferRef> buffers_;  // the pool's own reference to each
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_VERSION_BUFFER_H_
