// Owned, 64-byte aligned bytes. They are set to zero when the buffer is made, so that the pages are
// there before the first step and near the thread that made them.
#ifndef SHOAL_ML_TENSOR_BUFFER_H_
#define SHOAL_ML_TENSOR_BUFFER_H_

#include <cstddef>
#include <memory>

#include "absl/types/span.h"

namespace shoal {

class Buffer {
 public:
  static constexpr size_t kAlignment = 64;

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
