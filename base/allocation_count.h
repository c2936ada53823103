// Counts the allocations of a test's program by operator new. Linking this library replaces the
// operators of the whole program, so only a test that is a program of its own may use it. It does
// not work under the address sanitizer, which replaces the same operators.
#ifndef SHOAL_BASE_ALLOCATION_COUNT_H_
#define SHOAL_BASE_ALLOCATION_COUNT_H_

#include <cstdint>

namespace shoal {

// Returns the number of allocations by all threads since the program began, without those of
// threads that are left out. Allocations of libraries by malloc are not counted. Thread-safe.
int64_t NumAllocations();
// Returns the bytes of these allocations; freed memory counts too.
int64_t NumAllocatedBytes();

// Starts to count the allocations by operator new in the code of a loaded shared library
// separately; `name` is a part of the library's path. Returns false if no such library is loaded.
// Call it once.
bool CountAllocationsOfLibraryApart(const char* name);
int64_t NumAllocationsOfLibrary();

// Stops counting the allocations of the calling thread.
void LeaveOutAllocationsOfThisThread();

}  // namespace shoal

#endif  // SHOAL_BASE_ALLOCATION_COUNT_H_
