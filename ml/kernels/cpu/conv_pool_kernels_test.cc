#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

struct Case {
  Shape images, weights;
  std::vector<int64_t> pads, pool;
  Shape convolved, pooled;
};

// Compares the fused kernels with the same computation in separate kernels.
const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>{
      {{19, 1, 28, 28}, {32, 1, 5, 5}, {2, 2, 2, 2}, {2, 2}, {19, 32, 28, 28}, {19, 32, 14, 14}},
      {{11, 32, 14, 14}, {64, 32, 5, 5}, {2, 2, 2, 2}, {2, 2}, {11, 64, 14, 14}, {11, 64, 7, 7}},
      {{3, 16, 9, 7}, {32, 16, 5, 5}, {2, 2, 2, 2}, {2, 2}, {3, 32, 9, 7}, {3, 32, 4, 3}},
      {{3, 16, 10, 8}, {16, 16, 3, 3}, {1, 1, 1, 1}, {3, 3}, {3, 16, 10, 8}, {3, 16, 4, 3}},
      {{5, 32, 12, 12}, {32, 32, 3, 3}, {1, 1, 1, 1}, {2, 2}, {5, 32, 12, 12}, {5, 32, 6, 6}},
      {{3, 2, 8, 8}, {5, 2, 3, 3}, {0, 0, 0, 0}, {2, 2}, {3, 5, 6, 6}, {3, 5, 3, 3}},
  };
  return cases;
}

std::vector<int64_t> PoolStrides() { return {2, 2}; }

Attributes FusedAttributes(const Case& c, bool relu) {
  return {{"pads", c.pads},
          {"pool_kernel_shape", c.pool},
          {"pool_strides", PoolStrides()},
          {"relu", relu}};
}

Attributes PoolAttributes(const Case& c, bool relu) {
  return {{"kernel_shape", c.pool}, {"strides", PoolStrides()}, {"relu", relu}};
}

Value Layouted(const Value& images, bool blocked) {
  return blocked && images.spec.shape.dim(1) % 16 == 0 ? ToBlocked(images) : images;
}

Value Plain(const Value& images) {
  return images.spec.layout == Layout::kBlocked16 ? ToPlain(images) : images;
}

TEST(ConvPoolTest, ForwardAgreesWithSeparateKernels) {
  for (const Case& c : Cases()) {
    const Value x = RandomFloats(c.images, 1), w = RandomFloats(c.weights, 2, 0.3f);
    const Value bias = RandomFloats({c.weights.dim(0)}, 3);
    for (bool relu : {false, true}) {
      const auto convolved = RunKernel("Conv", {{"pads", c.pads}}, {x, w, bias},
                                       {{DataType::kFloat32, c.convolved}}, {});
      ASSERT_TRUE(convolved.ok()) << convolved.status();
      const auto want =
          RunKernel("MaxPool", PoolAttributes(c, relu), {(*convolved)[0]},
                    {{DataType::kFloat32, c.pooled}, {DataType::kUint8, c.pooled}}, {});
      ASSERT_TRUE(want.ok()) << want.status();
      for (bool blocked : {false, true}) {
        for (CpuIsa isa : AllIsas()) {
          for (int threads : {1, 2}) {
            const Value like = Layouted((*want)[0], blocked);
            const auto got = RunKernel(
                "ConvPool", FusedAttributes(c, relu), {Layouted(x, blocked), w, bias},
                {like.spec, {DataType::kUint8, c.pooled, like.spec.layout}}, {threads, isa});
            ASSERT_TRUE(got.ok()) << got.status();
            EXPECT_LT(ErrorToScale(Plain((*got)[0]).floats, (*want)[0].floats), 1e-5);
            // Nearly equal elements may change places: at most one index in a thousand differs.
            const Value index = Plain((*got)[1]);
            int64_t different = 0;
            for (size_t i = 0; i < index.bytes.size(); ++i) {
              different += index.bytes[i] != (*want)[1].bytes[i] ? 1 : 0;
            }
            EXPECT_LE(different, static_cast<int64_t>(index.bytes.size() / 1000));
          }
        }
      }
    }
  }
}

TEST(ConvPoolTest, AnUnusedIndexIsNotWritten) {
  for (const Case& c : Cases()) {
    const Value x = RandomFloats(c.images, 1), w = RandomFloats(c.weights, 2);
    const Value bias = RandomFloats({c.weights.dim(0)}, 3);
    const std::vector<TensorSpec> outputs = {{DataType::kFloat32, c.pooled},
                                             {DataType::kUint8, c.pooled}};
    const auto all = RunKernel("ConvPool", FusedAttributes(c, true), {x, w, bias}, outputs, {});
    const auto one = RunKernel("ConvPool", FusedAttributes(c, true), {x, w, bias}, outputs,
                               {1, CpuIsa::kGeneric, {true, false}});
    ASSERT_TRUE(all.ok() && one.ok()) << all.status() << one.status();
    EXPECT_EQ((*one)[0].floats, (*all)[0].floats);
    EXPECT_EQ((*one)[1].bytes, Unwritten(outputs[1]).bytes);
  }
}

TEST(ConvPoolGradTest, GradientsAgreeWithSeparateKernels) {
  for (const Case& c : Cases()) {
    const Value x = RandomFloats(c.images, 1), w = RandomFloats(c.weights, 2, 0.3f);
    const Value dy = RandomFloats(c.pooled, 4);
    Value index = Bytes(c.pooled, {});
    for (int64_t i = 0; i < c.pooled.num_elements(); ++i) {
      index.bytes.push_back(i % 7 == 0 ? 255
                                       : static_cast<uint8_t>(i * 5 % (c.pool[0] * c.pool[1])));
    }
    const TensorSpec bias = {DataType::kFloat32, {c.weights.dim(0)}};
    const auto middle = RunKernel("MaxPoolGrad", PoolAttributes(c, true), {index, dy},
                                  {{DataType::kFloat32, c.convolved}}, {});
    ASSERT_TRUE(middle.ok()) << middle.status();
    const auto want = RunKernel("ConvGrad", {{"pads", c.pads}}, {x, w, (*middle)[0], (*middle)[0]},
                                {x.spec, w.spec, bias}, {});
    ASSERT_TRUE(want.ok()) << want.status();
    for (bool blocked : {false, true}) {
      for (CpuIsa isa : AllIsas()) {
        for (int threads : {1, 2}) {
          const Value x_in = Layouted(x, blocked);
          const auto got = RunKernel("ConvPoolGrad", FusedAttributes(c, true),
                                     {x_in, w, Layouted(index, blocked), Layouted(dy, blocked)},
                                     {x_in.spec, w.spec, bias}, {threads, isa});
          ASSERT_TRUE(got.ok()) << got.status();
          EXPECT_LT(ErrorToScale(Plain((*got)[0]).floats, (*want)[0].floats), 1e-5);
          EXPECT_LT(ErrorToScale((*got)[1].floats, (*want)[1].floats), 1e-5);
          EXPECT_LT(ErrorToScale((*got)[2].floats, (*want)[2].floats), 1e-5);
        }
      }
    }
  }
}

TEST(ConvPoolGradTest, GradientsNotNeededAreNotWritten) {
  const Case& c = Cases()[1];
  const Value x = ToBlocked(RandomFloats(c.images, 1)), w = RandomFloats(c.weights, 2);
  const Value dy = ToBlocked(RandomFloats(c.pooled, 4));
  const Value index = ToBlocked(Bytes(c.pooled, std::vector<uint8_t>(c.pooled.num_elements(), 1)));
  const auto got = RunKernel("ConvPoolGrad", FusedAttributes(c, true), {x, w, index, dy},
                             {x.spec, w.spec, {DataType::kFloat32, {64}}},
                             {1, DetectCpuIsa(), {false, true, false}});
  ASSERT_TRUE(got.ok()) << got.status();
  EXPECT_EQ((*got)[0].floats, Unwritten(x.spec).floats);
  EXPECT_NE((*got)[1].floats, Unwritten(w.spec).floats);
}

TEST(ConvPoolGradTest, TheSameInputsGiveTheSameBytes) {
  const Case& c = Cases()[1];
  const Value x = ToBlocked(RandomFloats(c.images, 1)), w = RandomFloats(c.weights, 2);
  const Value dy = ToBlocked(RandomFloats(c.pooled, 4));
  const Value index = ToBlocked(Bytes(c.pooled, std::vector<uint8_t>(c.pooled.num_elements(), 2)));
  const auto run = [&] {
    return *RunKernel("ConvPoolGrad", FusedAttributes(c, true), {x, w, index, dy},
                      {x.spec, w.spec, {DataType::kFloat32, {64}}}, {2, DetectCpuIsa()});
  };
  const std::vector<Value> first = run(), second = run();
  for (int i = 0; i < 3; ++i) EXPECT_EQ(first[i].floats, second[i].floats);
}

}  // namespace
}  // namespace shoal::cpu
