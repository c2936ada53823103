#ifndef SHOAL_RUNTIME_VARIABLES_VERSION_BUFFER_H_
#define SHOAL_RUNTIME_VARIABLES_VERSION_BUFFER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace shoal {

// An array of floats with a reference count, 64-byte aligned. Its owner fills it while it has the
// only reference. It is immutable while others (a reply being sent, a snapshot being written) hold
// references.
class VersionBuffer {
 public:
  VersionBuffer(const VersionBuffer&) = delete;
  VersionBuffer& operator=(const VersionBuffer&) = delete;

  float* data() { return data_; }
  const float* data() const { return data_; }
  size_t size() const { return size_; }  // in floats

 private:
  friend class VersionBufferRef;
  friend class VersionBufferPool;

  explicit VersionBuffer(size_t size);
  ~VersionBuffer();

  // Returns whether there are more references than the caller's own ones.
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

  // Returns whether there are references besides this one and the pool's.
  bool IsShared() const { return buffer_->IsShared(2); }

 private:
  void Drop();

  VersionBuffer* buffer_ = nullptr;
};

// Buffers of one size that are reused once only the pool holds them, so that a steady state does
// not allocate. If more than one buffer, besides the one that is returned, was free in each of 100
// consecutive Acquire calls, one of them is deleted, so the buffers of a peak go away one by one. A
// buffer that is still referenced when the pool is destroyed lives until its last reference is
// dropped. Only one thread at a time may call Acquire; references may be dropped on any thread
// meanwhile.
class VersionBufferPool {
 public:
  explicit VersionBufferPool(size_t num_floats) : num_floats_(num_floats) {}
  VersionBufferPool(VersionBufferPool&&) = default;

  // Returns a buffer with undefined contents, whose memory pages have been touched.
  VersionBufferRef Acquire();

  size_t num_floats() const { return num_floats_; }
  size_t num_buffers() const { return buffers_.size(); }

 private:
  const size_t num_floats_;
  // The last consecutive calls of Acquire with more than one free buffer.
  int calls_with_spare_ = 0;
  std::vector<VersionBufferRef> buffers_;  // the pool's own references
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_VERSION_BUFFER_H_
