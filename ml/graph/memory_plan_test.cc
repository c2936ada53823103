#include "ml/graph/memory_plan.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(MemoryPlanTest, ValuesThatNeverMeetShareBytes) {
  const MemoryPlan plan = PlanMemory({{1000, 0, 1}, {1000, 2, 3}, {500, 1, 2}});
  EXPECT_EQ(plan.offsets[0], plan.offsets[1]);
  EXPECT_EQ(plan.offsets[2], 1024u);
  EXPECT_EQ(plan.total_bytes, 1536u);
}

TEST(MemoryPlanTest, ValuesThatMeetNeverOverlap) {
  std::vector<MemoryRequest> requests;
  for (int i = 0; i < 60; ++i) {
    requests.push_back({static_cast<size_t>(i * 37 % 500), i, i + (i * 7) % 11});
  }
  const MemoryPlan plan = PlanMemory(requests);
  for (size_t a = 0; a < requests.size(); ++a) {
    EXPECT_EQ(plan.offsets[a] % 64, 0u);
    EXPECT_LE(plan.offsets[a] + requests[a].bytes, plan.total_bytes);
    for (size_t b = 0; b < a; ++b) {
      if (requests[a].first > requests[b].last || requests[b].first > requests[a].last) continue;
      const bool apart = plan.offsets[a] + requests[a].bytes <= plan.offsets[b] ||
                         plan.offsets[b] + requests[b].bytes <= plan.offsets[a];
      EXPECT_TRUE(apart) << a << " and " << b;
    }
  }
}

}  // namespace
}  // namespace shoal
