#include "base/allocation_count.h"

#include <link.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

namespace {

std::atomic<int64_t> num_allocations{0};
std::atomic<int64_t> num_bytes{0};
thread_local bool is_left_out = false;

// The addresses of a library whose own allocations are counted apart.
std::atomic<uintptr_t> library_begin{0}, library_end{0};
std::atomic<int64_t> num_allocations_of_library{0};

int FindLibrary(dl_phdr_info* library, size_t /*size*/, void* name) {
  if (std::strstr(library->dlpi_name, static_cast<const char*>(name)) == nullptr) return 0;
  uintptr_t end = 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const ElfW(Phdr)& part = library->dlpi_phdr[i];
    if (part.p_type == PT_LOAD && part.p_vaddr + part.p_memsz > end) {
      end = part.p_vaddr + part.p_memsz;
    }
  }
  library_end = library->dlpi_addr + end;
  library_begin = library->dlpi_addr;
  return 1;
}

void* Allocate(size_t size, size_t alignment, const void* caller) {
  const auto address = reinterpret_cast<uintptr_t>(caller);
  const bool is_of_library = address >= library_begin && address < library_end;
  if (!is_left_out) {
    (is_of_library ? num_allocations_of_library : num_allocations)
        .fetch_add(1, std::memory_order_relaxed);
    if (!is_of_library) num_bytes.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  }
  void* memory = nullptr;
  if (posix_memalign(&memory, alignment < sizeof(void*) ? sizeof(void*) : alignment,
                     size == 0 ? 1 : size) != 0) {
    std::abort();
  }
  return memory;
}

}  // namespace

void* operator new(size_t size) {
  return Allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new[](size_t size) {
  return Allocate(size, alignof(std::max_align_t), __builtin_return_address(0));
}
void* operator new(size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void* operator new[](size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<size_t>(alignment), __builtin_return_address(0));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }
void operator delete[](void* memory, size_t, std::align_val_t) noexcept { std::free(memory); }

namespace shoal {

int64_t NumAllocations() { return num_allocations.load(std::memory_order_relaxed); }

int64_t NumAllocatedBytes() { return num_bytes.load(std::memory_order_relaxed); }

bool CountAllocationsOfLibraryApart(const char* name) {
  return dl_iterate_phdr(FindLibrary, const_cast<char*>(name)) != 0;
}

int64_t NumAllocationsOfLibrary() {
  return num_allocations_of_library.load(std::memory_order_relaxed);
}

void LeaveOutAllocationsOfThisThread() { is_left_out = true; }

}  // namespace shoal
