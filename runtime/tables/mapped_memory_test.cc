#include "runtime/tables/mapped_memory.h"

#include <sys/mman.h>

#include <cstdint>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(MapMemoryTest, LargeMemoryBeginsAtAHugePage) {
  for (const size_t bytes : {kHugePageBytes, kHugePageBytes + 1, 3 * kHugePageBytes - 16}) {
    char* const memory = static_cast<char*>(MapMemory(bytes, "a test"));
    EXPECT_EQ(reinterpret_cast<uintptr_t>(memory) % kHugePageBytes, 0u) << bytes;
    EXPECT_EQ(memory[0], 0);
    EXPECT_EQ(memory[bytes - 1], 0);
    memory[bytes - 1] = 1;
    EXPECT_EQ(munmap(memory, bytes), 0);
  }
}

TEST(MapMemoryTest, SmallMemoryIsZeros) {
  char* const memory = static_cast<char*>(MapMemory(5000, "a test"));
  EXPECT_EQ(memory[4999], 0);
  EXPECT_EQ(munmap(memory, 5000), 0);
}

TEST(MapMemoryDeathTest, TheMessageSaysWhatTheMemoryIsFor) {
  EXPECT_DEATH(MapMemory(SIZE_MAX / 4, "rows of tables"),
               "maps no more memory for rows of tables; raise `ulimit -v`");
}

}  // namespace
}  // namespace shoal
