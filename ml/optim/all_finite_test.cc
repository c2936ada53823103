#include "ml/optim/all_finite.h"

#include <limits>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(AllFiniteTest, FindsOneNumberAnywhere) {
  using Limits = std::numeric_limits<float>;
  for (const size_t n : {1u, 7u, 16u, 33u, 100u}) {
    std::vector<float> values(n, Limits::max());
    for (size_t i = 0; i < n; i += 2) values[i] = -Limits::max();
    EXPECT_TRUE(AllFinite(values.data(), n));
    for (size_t i = 0; i < n; ++i) {
      for (const float bad : {Limits::infinity(), -Limits::infinity(), Limits::quiet_NaN()}) {
        const float before = std::exchange(values[i], bad);
        EXPECT_FALSE(AllFinite(values.data(), n)) << i << " of " << n;
        values[i] = before;
      }
    }
  }
  EXPECT_TRUE(AllFinite(nullptr, 0));
}

}  // namespace
}  // namespace shoal
