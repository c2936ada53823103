#include <functional>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

// Sums of x over the elements that `target` sends to the same index.
std::vector<float> SumInto(const Value& x, int64_t n,
                           const std::function<int64_t(int64_t)>& target) {
  std::vector<double> sums(static_cast<size_t>(n), 0.0);
  for (size_t i = 0; i < x.floats.size(); ++i) {
    sums[static_cast<size_t>(target(static_cast<int64_t>(i)))] += static_cast<double>(x.floats[i]);
  }
  return {sums.begin(), sums.end()};
}

TEST(SumToTest, SumsOverTheDimensionsThatTheOutputLacks) {
  struct Case {
    Shape from, to;
    std::function<int64_t(int64_t)> target;
  };
  const std::vector<Case> cases = {
      {{7, 9}, {7, 9}, [](int64_t i) { return i; }},
      {{70, 90}, {}, [](int64_t) { return 0; }},
      {{70, 90}, {90}, [](int64_t i) { return i % 90; }},
      {{2000, 33}, {33}, [](int64_t i) { return i % 33; }},
      {{70, 90}, {70, 1}, [](int64_t i) { return i / 90; }},
      {{4, 3, 5, 6}, {1, 3, 1, 1}, [](int64_t i) { return i / 30 % 3; }},
      {{4, 3, 5, 6}, {4, 1, 5, 1}, [](int64_t i) { return i / 90 * 5 + i / 6 % 5; }},
      {{4, 3, 5, 6}, {3, 1, 6}, [](int64_t i) { return i / 30 % 3 * 6 + i % 6; }},
  };
  for (CpuIsa isa : AllIsas()) {
    for (int threads : {1, 2}) {
      for (const Case& c : cases) {
        const Value x = RandomFloats(c.from, 1);
        const auto result =
            RunKernel("SumTo", {}, {x}, {{DataType::kFloat32, c.to}}, {threads, isa});
        ASSERT_TRUE(result.ok()) << result.status();
        EXPECT_LT(LargestError((*result)[0].floats, SumInto(x, c.to.num_elements(), c.target)),
                  1e-5)
            << c.from.ToString() << " to " << c.to.ToString();
      }
    }
  }
}

TEST(ReduceTest, AxesCountFromEitherEndAndNoneMeansAll) {
  const Value x = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const auto run = [&](const std::string& op, std::vector<int64_t> axes, const Shape& to) {
    return (*RunKernel(op, {{"axes", axes}}, {x}, {{DataType::kFloat32, to}}, {}))[0].floats;
  };
  EXPECT_EQ(run("ReduceSum", {0}, {3}), std::vector<float>({5, 7, 9}));
  EXPECT_EQ(run("ReduceSum", {-1}, {2, 1}), std::vector<float>({6, 15}));
  EXPECT_EQ(run("ReduceMean", {}, {}), std::vector<float>({3.5}));
  EXPECT_EQ(run("ReduceMean", {1}, {2}), std::vector<float>({2, 5}));
}

TEST(ReduceTest, MeanOfAMillionKeepsItsDigits) {
  Value x = Floats({1000, 1000}, std::vector<float>(1000000, 0.1f));
  const auto result =
      RunKernel("ReduceMean", {}, {x}, {{DataType::kFloat32, {}}}, {1, DetectCpuIsa()});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_NEAR((*result)[0].floats[0], 0.1f, 1e-7);
}

TEST(ReduceTest, AnAxisOutOfRangeIsRefused) {
  const auto result = RunKernel("ReduceSum", {{"axes", std::vector<int64_t>{2}}},
                                {RandomFloats({2, 3}, 1)}, {{DataType::kFloat32, {2}}}, {});
  EXPECT_EQ(result.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(BroadcastToTest, RepeatsTheDimensionsThatTheInputLacks) {
  const auto run = [](const Value& x, const Shape& to) {
    return (*RunKernel("BroadcastTo", {}, {x}, {{DataType::kFloat32, to}}, {}))[0].floats;
  };
  EXPECT_EQ(run(Floats({}, {7}), {3}), std::vector<float>({7, 7, 7}));
  EXPECT_EQ(run(Floats({2}, {1, 2}), {2, 2}), std::vector<float>({1, 2, 1, 2}));
  EXPECT_EQ(run(Floats({2, 1}, {1, 2}), {2, 2}), std::vector<float>({1, 1, 2, 2}));
}

TEST(L2LossTest, IsHalfTheSumOfSquares) {
  const auto result =
      RunKernel("L2Loss", {}, {Floats({3}, {1, -2, 3})}, {{DataType::kFloat32, {}}}, {});
  EXPECT_EQ((*result)[0].floats[0], 7.0f);
}

}  // namespace
}  // namespace shoal::cpu
