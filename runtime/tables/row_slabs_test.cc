#include "runtime/tables/row_slabs.h"

#include <cstdint>
#include <set>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr uintptr_t kHugePage = uintptr_t{2} << 20;

// The pool maps the memory for 200 MiB in chunks of one and of several huge pages.
TEST(SlabPoolTest, EverySlabIsMemoryOfItsOwn) {
  SlabPool pool(/*row_floats=*/20);
  const size_t slab_floats = pool.rows_per_slab() * 20;
  std::vector<float*> slabs;
  while (pool.bytes() < (uint64_t{200} << 20)) {
    slabs.push_back(pool.Allocate());
    slabs.back()[0] = static_cast<float>(slabs.size());
    slabs.back()[slab_floats - 1] = -static_cast<float>(slabs.size());
  }
  size_t at_huge_pages = 0;
  for (size_t i = 0; i < slabs.size(); ++i) {
    ASSERT_EQ(slabs[i][0], static_cast<float>(i + 1));
    ASSERT_EQ(slabs[i][slab_floats - 1], -static_cast<float>(i + 1));
    at_huge_pages += reinterpret_cast<uintptr_t>(slabs[i]) % kHugePage == 0 ? 1 : 0;
  }
  EXPECT_GT(at_huge_pages, 50u) << "the first slab of a large chunk begins at a huge page";
  EXPECT_EQ(std::set<float*>(slabs.begin(), slabs.end()).size(), slabs.size());
  EXPECT_LE(pool.bytes(), slabs.size() * slab_floats * sizeof(float) * 5 / 4);
}

TEST(SlabPoolTest, ARowMayBeLargerThanAHugePage) {
  constexpr size_t kFloats = 3 * kHugePage / 2 / sizeof(float);
  SlabPool pool(kFloats);
  for (int i = 0; i < 3; ++i) {
    float* const row = pool.Allocate();
    EXPECT_EQ(reinterpret_cast<uintptr_t>(row) % kHugePage, 0u);
    row[0] = row[kFloats - 1] = 1;
  }
  EXPECT_EQ(pool.bytes(), 3 * 2 * kHugePage);
}

TEST(SlabPoolTest, SlabsThatAreGivenBackAreUsedAgain) {
  SlabPool pool(/*row_floats=*/5);
  std::vector<float*> slabs;
  for (int i = 0; i < 100; ++i) slabs.push_back(pool.Allocate());
  const uint64_t bytes = pool.bytes();
  pool.GiveBack(slabs);
  for (int i = 0; i < 100; ++i) pool.Allocate();
  EXPECT_EQ(pool.bytes(), bytes);
}

}  // namespace
}  // namespace shoal
