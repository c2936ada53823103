#include "runtime/tables/mapped_memory.h"

#include <sys/mman.h>

#include <cstdint>

#include "base/log.h"

namespace shoal {
namespace {

constexpr size_t kPageBytes = size_t{4} << 10;

}  // namespace

// Not every kernel aligns a mapping by itself, and none one whose length is not whole huge pages.
void* MapMemory(size_t bytes, const char* what) {
  const bool is_huge = bytes >= kHugePageBytes;
  bytes = (bytes + kPageBytes - 1) / kPageBytes * kPageBytes;
  const size_t mapped_bytes = bytes + (is_huge ? kHugePageBytes : 0);
  void* const memory =
      mmap(nullptr, mapped_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(memory != MAP_FAILED) << "the system maps no more memory for " << what
                              << "; raise `ulimit -v`, vm.max_map_count or the limit of "
                                 "vm.overcommit_memory, or use more ps";
  if (!is_huge) return memory;
  char* const mapped = static_cast<char*>(memory);
  const size_t before = -reinterpret_cast<uintptr_t>(mapped) % kHugePageBytes;
  if (before > 0) munmap(mapped, before);
  munmap(mapped + before + bytes, kHugePageBytes - before);
  madvise(mapped + before, bytes, MADV_HUGEPAGE);
  return mapped + before;
}

}  // namespace shoal
