#include "runtime/variables/version_buffer.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <new>

namespace shoal {
namespace {

constexpr size_t kAlignment = 64;
constexpr size_t kKeptSpare = 1;
constexpr int kCallsUntilDropped = 100;

float* AllocateFloats(size_t size) {
  const size_t bytes =
      (std::max<size_t>(size, 1) * sizeof(float) + kAlignment - 1) / kAlignment * kAlignment;
  void* memory = std::aligned_alloc(kAlignment, bytes);
  if (memory == nullptr)
    throw std::bad_alloc();  // like operator new: the process ends and is restarted
  std::memset(memory, 0, bytes);
  return static_cast<float*>(memory);
}

}  // namespace

VersionBuffer::VersionBuffer(size_t size) : size_(size), data_(AllocateFloats(size)) {}

VersionBuffer::~VersionBuffer() { std::free(data_); }

void VersionBufferRef::Drop() {
  VersionBuffer* buffer = std::exchange(buffer_, nullptr);
  // Release: the reads of this holder happened before the next owner writes.
  if (buffer != nullptr && buffer->references_.fetch_sub(1, std::memory_order_acq_rel) == 1)
    delete buffer;
}

VersionBufferRef VersionBufferPool::Acquire() {
  VersionBufferRef acquired;
  VersionBufferRef* spare = nullptr;
  size_t num_spare = 0;
  for (VersionBufferRef& buffer : buffers_) {
    if (buffer->IsShared(1)) continue;
    if (!acquired) {
      acquired = buffer;
    } else {
      spare = &buffer;
      ++num_spare;
    }
  }
  if (!acquired) return buffers_.emplace_back(new VersionBuffer(num_floats_));
  calls_with_spare_ = num_spare > kKeptSpare ? calls_with_spare_ + 1 : 0;
  if (calls_with_spare_ == kCallsUntilDropped) {
    calls_with_spare_ = 0;
    std::swap(*spare, buffers_.back());
    buffers_.pop_back();
  }
  return acquired;
}

}  // namespace shoal
