// Tests properties of dropout over several runs; the conformance test compares single runs.
#include <cmath>
#include <cstring>

#include "gtest/gtest.h"

#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/kernels/op_runner.h"

namespace shoal {
namespace {

constexpr int64_t kSize = 200;

Tensor Drop(const RandomKey& key, int64_t examples, double rate, int64_t op_id = 7,
            int threads = 1) {
  Tensor ones(DataType::kFloat32, {examples, kSize});
  for (float& v : ones.mutable_span<float>()) v = 1;
  const OpCall call{
      "Dropout", {{"rate", rate}, {"op_id", op_id}}, {ones}, {{DataType::kFloat32, ones.shape()}}};
  const KernelFactory factory = [](const KernelRequest& request) {
    return CreateCpuKernel(request);
  };
  return RunOp(factory, call, {threads, {}, key}).value()[0];
}

bool SameBytes(const Tensor& a, const Tensor& b) {
  return a.bytes() == b.bytes() && std::memcmp(a.data(), b.data(), a.bytes()) == 0;
}

TEST(DropoutTest, ABatchCutOverClonesHasTheSameMask) {
  const Tensor whole = Drop({3, 1, 40}, 9, 0.4);
  int64_t first = 0;
  for (int64_t examples : {2, 4, 3}) {
    const Tensor part = Drop({3, 1, static_cast<uint64_t>(40 + first)}, examples, 0.4, 7, 2);
    EXPECT_EQ(std::memcmp(part.data(), whole.span<float>().data() + first * kSize, part.bytes()),
              0);
    first += examples;
  }
}

TEST(DropoutTest, SeedEpochExampleAndOpDecide) {
  const Tensor mask = Drop({3, 1, 40}, 1, 0.5);
  EXPECT_TRUE(SameBytes(mask, Drop({3, 1, 40}, 1, 0.5)));
  EXPECT_FALSE(SameBytes(mask, Drop({4, 1, 40}, 1, 0.5)));
  EXPECT_FALSE(SameBytes(mask, Drop({3, 2, 40}, 1, 0.5)));
  EXPECT_FALSE(SameBytes(mask, Drop({3, 1, 41}, 1, 0.5)));
  EXPECT_FALSE(SameBytes(mask, Drop({3, 1, 40}, 1, 0.5, 8)));
}

TEST(DropoutTest, TheShareOfDroppedElementsIsTheRateAndTheMeanIsKept) {
  for (double rate : {0.1, 0.5, 0.8}) {
    const Tensor y = Drop({1, 0, 0}, 500, rate);
    double dropped = 0, sum = 0;
    for (float v : y.span<float>()) {
      EXPECT_TRUE(v == 0 || v == static_cast<float>(1 / (1 - rate))) << v;
      dropped += v == 0 ? 1 : 0;
      sum += v;
    }
    const double n = 500 * kSize;
    const double deviation = std::sqrt(rate * (1 - rate) / n);
    EXPECT_NEAR(dropped / n, rate, 4 * deviation);
    EXPECT_NEAR(sum / n, 1, 4 * deviation / (1 - rate));
  }
}

}  // namespace
}  // namespace shoal
