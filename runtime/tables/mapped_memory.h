// Memory that is mapped, and not part of the heap.
#ifndef SHOAL_RUNTIME_TABLES_MAPPED_MEMORY_H_
#define SHOAL_RUNTIME_TABLES_MAPPED_MEMORY_H_

#include <cstddef>

namespace shoal {

inline constexpr size_t kHugePageBytes = size_t{2} << 20;

// Maps this many bytes of zeros; munmap gives them back. From kHugePageBytes on the memory begins
// at a huge page, so that the kernel can use huge pages for all that are complete. Ends the process
// if the system maps no more; the message says that the memory is for `what` ("rows of tables").
void* MapMemory(size_t bytes, const char* what);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_TABLES_MAPPED_MEMORY_H_
