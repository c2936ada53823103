// Counts what a test's program takes by operator new. Linking this library replaces the operators
// of the whole program, so a test that uses it is a program of its own; not under address
// sanitizer, which has operators of its own.
#ifndef SHOAL_BASE_ALLOCATION_COUNT_H_
#define SHOAL_BASE_ALLOCATION_COUNT_H_

#include <cstdint>

namespace shoal {

// By all threads since the program began, but for those left out. What libraries take by malloc is
// not counted. Thread-safe.
int64_t NumAllocations();

// From now on what the code of a loaded shared library takes by operator new is not counted above
// but here; `name` is a part of its path. False if there is none such. Call it once.
bool CountAllocationsOfLibraryApart(const char* name);
int64_t NumAllocationsOfLibrary();

// From now on the calling thread's are not counted.
void LeaveOutAllocationsOfThisThread();

}  // namespace shoal

#endif  // SHOAL_BASE_ALLOCATION_COUNT_H_
