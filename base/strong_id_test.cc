#include "base/strong_id.h"

#include <cstdint>
#include <sstream>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using PsIndex = StrongId<struct PsIndexTag, int32_t>;
using WorkerIndex = StrongId<struct WorkerIndexTag, uint8_t>;

static_assert(!std::is_convertible_v<int, PsIndex>, "a plain number is not an id");
static_assert(!std::is_convertible_v<PsIndex, int>, "an id is not a plain number");
static_assert(!std::is_constructible_v<PsIndex, WorkerIndex>, "ids do not convert");
static_assert(sizeof(WorkerIndex) == 1, "an id costs what its number costs");

TEST(StrongIdTest, ComparesAndCountsAsItsNumber) {
  PsIndex index(3);
  EXPECT_EQ(index++, PsIndex(3));
  EXPECT_EQ(++index, PsIndex(5));
  EXPECT_LT(PsIndex(4), index);
  EXPECT_NE(PsIndex(), index);
}

TEST(StrongIdTest, IsAKeyAndPrintsAsANumber) {
  absl::flat_hash_map<PsIndex, int> map;
  map[PsIndex(7)] = 1;
  EXPECT_EQ(map.count(PsIndex(7)), 1u);
  EXPECT_EQ(map.count(PsIndex(8)), 0u);
  std::ostringstream out;
  out << WorkerIndex(9);
  EXPECT_EQ(out.str(), "9");
}

}  // namespace
}  // namespace shoal
