// Owns 64-byte aligned memory. The constructor sets it to zero, so that its pages are allocated
// before the first step, on the NUMA node of the constructing thread.
#ifndef SHOAL_ML_TENSOR_BUFFER_H_
#define SHOAL_ML_TENSOR_BUFFER_H_

#include <cstddef>
#include <memory>

#include "absl/types/span.h"

namespace shoal {

// The alignment of all memory for tensors: a cache line.
inline constexpr size_t kMemoryAlignment = 64;

// Returns the number of bytes rounded up to whole cache lines, for several aligned pieces in one
// area.
template <typename Size>
constexpr Size AlignedBytes(Size bytes) {
  return (bytes + Size{kMemoryAlignment - 1}) / Size{kMemoryAlignment} * Size{kMemoryAlignment};
}

class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(size_t size);

  void* data() { return bytes_.get(); }
  const void* data() const { return bytes_.get(); }
  size_t size() const { return size_; }

  template <typename T>
  absl::Span<T> As() {
    return {static_cast<T*>(data()), size_ / sizeof(T)};
  }
  template <typename T>
  absl::Span<const T> As() const {
    return {static_cast<const T*>(data()), size_ / sizeof(T)};
  }

 private:
  struct Free {
    void operator()(void* bytes) const;
  };
  std::unique_ptr<void, Free> bytes_;
  size_t size_ = 0;
};

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_BUFFER_H_
