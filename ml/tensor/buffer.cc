#include "ml/tensor/buffer.h"

#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <new>

namespace shoal {
namespace {

constexpr size_t kHugePage = size_t{2} << 20;

// Asks the kernel for huge pages, because matrix products access memory with strides for which the
// TLB has too few entries of small pages. Without huge pages nothing changes.
void AskForHugePages(void* data, size_t size) {
  const auto address = reinterpret_cast<uintptr_t>(data);
  const uintptr_t begin = (address + kHugePage - 1) / kHugePage * kHugePage;
  const uintptr_t end = (address + size) / kHugePage * kHugePage;
  if (begin < end) (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

}  // namespace

Buffer::Buffer(size_t size) : size_(size) {
  if (size == 0) return;
  bytes_.reset(::operator new (size, std::align_val_t{kMemoryAlignment}));
  AskForHugePages(bytes_.get(), size);
  std::memset(bytes_.get(), 0, size);
}

void Buffer::Free::operator()(void* bytes) const {
  ::operator delete (bytes, std::align_val_t{kMemoryAlignment});
}

}  // namespace shoal
