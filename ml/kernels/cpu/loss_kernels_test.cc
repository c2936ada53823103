#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

const TensorSpec kScalar = {DataType::kFloat32, {}};

// Prediction and target as the full shape sees them.
struct ErrorCase {
  Shape p, t;
  int64_t n;
  int64_t p_div, p_mod, t_div, t_mod;  // index = i / div % mod
};
const ErrorCase kErrorCases[] = {
    {{200, 1}, {200, 1}, 200, 1, 200, 1, 200}, {{20, 1}, {20, 33}, 660, 33, 20, 1, 660},
    {{20, 33}, {20, 1}, 660, 1, 660, 33, 20},  {{33}, {20, 33}, 660, 1, 33, 1, 660},
    {{20, 33}, {20, 33}, 660, 1, 660, 1, 660}, {{}, {20, 33}, 660, 660, 1, 1, 660},
};

TEST(MeanSquaredErrorTest, LossAndGradientAreThoseOfTheBroadcast) {
  for (CpuIsa isa : AllIsas()) {
    for (const ErrorCase& c : kErrorCases) {
      const Value p = RandomFloats(c.p, 1), t = RandomFloats(c.t, 2), dloss = Floats({}, {0.7f});
      double sum = 0.0;
      std::vector<double> gradient(p.floats.size(), 0.0);
      for (int64_t i = 0; i < c.n; ++i) {
        const double error = static_cast<double>(p.floats[i / c.p_div % c.p_mod]) -
                             static_cast<double>(t.floats[i / c.t_div % c.t_mod]);
        sum += error * error;
        gradient[i / c.p_div % c.p_mod] += 2.0 * 0.7 * error / static_cast<double>(c.n);
      }
      const auto loss = RunKernel("MeanSquaredError", {}, {p, t}, {kScalar}, {2, isa});
      ASSERT_TRUE(loss.ok()) << loss.status();
      EXPECT_NEAR((*loss)[0].floats[0], sum / static_cast<double>(c.n), 1e-6);
      const auto dp = RunKernel("MeanSquaredErrorGrad", {}, {p, t, dloss}, {p.spec}, {2, isa});
      ASSERT_TRUE(dp.ok()) << dp.status();
      EXPECT_LT(LargestError((*dp)[0].floats, {gradient.begin(), gradient.end()}), 1e-6);
    }
  }
}

double Loss(const std::string& op, double p, double t) {
  if (op == "AbsoluteDifference") return std::abs(p - t);
  if (op == "Hinge") return std::max(0.0, 1.0 - (2.0 * t - 1.0) * p);
  if (op == "Huber") {
    const double e = std::abs(p - t);
    return e <= 0.3 ? 0.5 * e * e : 0.3 * e - 0.5 * 0.09;
  }
  if (op == "SigmoidCrossEntropy") {
    return std::max(p, 0.0) - p * t + std::log1p(std::exp(-std::abs(p)));
  }
  return -t * std::log(p + 1e-7) - (1.0 - t) * std::log(1.0 - p + 1e-7);  // LogLoss
}

TEST(ElementwiseLossTest, LossesAndTheirSlopesAgreeWithTheFormulas) {
  for (const std::string op :
       {"AbsoluteDifference", "Hinge", "Huber", "SigmoidCrossEntropy", "LogLoss"}) {
    Value p = RandomFloats({5001}, 1, op == "LogLoss" ? 0.45f : 3.0f);
    Value t = RandomFloats({5001}, 2);
    const Value dloss = RandomFloats({5001}, 3);
    for (size_t i = 0; i < p.floats.size(); ++i) {
      if (op == "LogLoss") p.floats[i] += 0.5f;
      if (op != "Huber" && op != "AbsoluteDifference") t.floats[i] = t.floats[i] > 0 ? 1.0f : 0.0f;
    }
    const Attributes attributes = {{"delta", 0.3}};
    for (CpuIsa isa : AllIsas()) {
      const auto loss = RunKernel(op, attributes, {p, t}, {p.spec}, {2, isa});
      const auto slope = RunKernel(op + "Grad", attributes, {p, t, dloss}, {p.spec}, {2, isa});
      ASSERT_TRUE(loss.ok() && slope.ok()) << loss.status() << slope.status();
      for (size_t i = 0; i < p.floats.size(); ++i) {
        const double x = static_cast<double>(p.floats[i]), y = static_cast<double>(t.floats[i]);
        ASSERT_NEAR((*loss)[0].floats[i], Loss(op, x, y), 1e-6 * (1.0 + std::abs(x))) << op;
        const double step = 1e-6;
        const double want = (Loss(op, x + step, y) - Loss(op, x - step, y)) / (2.0 * step) *
                            static_cast<double>(dloss.floats[i]);
        ASSERT_NEAR((*slope)[0].floats[i], want, 1e-4 * (1.0 + std::abs(want)))
            << op << " at " << x;
      }
    }
  }
}

TEST(ElementwiseLossTest, LargeLogitsDoNotOverflow) {
  const Value p = Floats({2}, {1000.0f, -1000.0f}), t = Floats({2}, {0.0f, 1.0f});
  for (CpuIsa isa : AllIsas()) {
    const auto loss = RunKernel("SigmoidCrossEntropy", {}, {p, t}, {p.spec}, {1, isa});
    EXPECT_THAT((*loss)[0].floats, testing::ElementsAre(1000.0f, 1000.0f));
  }
}

}  // namespace
}  // namespace shoal::cpu
