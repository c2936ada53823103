#include "ml/tensor/buffer.h"

#include <cstring>
#include <new>

namespace shoal {

Buffer::Buffer(size_t size) : size_(size) {
  if (size == 0) return;
  bytes_.reset(::operator new (size, std::align_val_t{kAlignment}));
  std::memset(bytes_.get(), 0, size);
}

void Buffer::Free::operator()(void* bytes) const {
  ::operator delete (bytes, std::align_val_t{kAlignment});
}

}  // namespace shoal
