#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

using Ints64 = std::vector<int64_t>;

TEST(TransposeTest, AxesGoWhereThePermutationSays) {
  const Value x = RandomFloats({3, 4, 5, 37}, 1);
  const Ints64 perm = {2, 0, 3, 1};
  const auto y =
      RunKernel("Transpose", {{"perm", perm}}, {x}, {{DataType::kFloat32, {5, 3, 37, 4}}}, {2});
  ASSERT_TRUE(y.ok()) << y.status();
  for (int64_t i = 0; i < x.spec.shape.num_elements(); ++i) {
    const int64_t d = i % 37, c = i / 37 % 5, b = i / 185 % 4, a = i / 740;
    ASSERT_EQ((*y)[0].floats[((c * 3 + a) * 37 + d) * 4 + b], x.floats[i]);
  }
}

TEST(TransposeTest, WorksOnBytesAndVectors) {
  const auto bytes =
      RunKernel("Transpose", {{"perm", Ints64{1, 0}}}, {Bytes({2, 3}, {1, 2, 3, 4, 5, 6})},
                {{DataType::kUint8, {3, 2}}}, {});
  EXPECT_THAT((*bytes)[0].bytes, testing::ElementsAre(1, 4, 2, 5, 3, 6));
  const auto vector = RunKernel("Transpose", {{"perm", Ints64{0}}}, {Floats({3}, {1, 2, 3})},
                                {{DataType::kFloat32, {3}}}, {});
  EXPECT_THAT((*vector)[0].floats, testing::ElementsAre(1, 2, 3));
}

TEST(TransposeTest, AnAxisNamedTwiceIsRefused) {
  const auto y = RunKernel("Transpose", {{"perm", Ints64{0, 2}}}, {RandomFloats({2, 3}, 1)},
                           {{DataType::kFloat32, {3, 2}}}, {});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ConcatTest, PartsFollowEachOtherAlongTheAxis) {
  const Value a = Floats({2, 1, 2}, {1, 2, 5, 6}), b = Floats({2, 2, 2}, {3, 4, 0, 0, 7, 8, 9, 9});
  const auto y =
      RunKernel("Concat", {{"axis", int64_t{-2}}}, {a, b}, {{DataType::kFloat32, {2, 3, 2}}}, {});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_THAT((*y)[0].floats, testing::ElementsAre(1, 2, 3, 4, 0, 0, 5, 6, 7, 8, 9, 9));
}

TEST(SplitTest, TakesApartWhatConcatPutTogetherAndSkipsWhatIsNotNeeded) {
  const Value whole = Floats({2, 3}, {1, 2, 3, 4, 5, 6});
  const std::vector<TensorSpec> parts = {{DataType::kFloat32, {2, 1}},
                                         {DataType::kFloat32, {2, 2}}};
  for (const std::string op : {"Split", "ConcatGrad"}) {
    const auto y =
        RunKernel(op, {{"axis", int64_t{1}}}, {whole}, parts, {1, CpuIsa::kGeneric, {false, true}});
    ASSERT_TRUE(y.ok()) << y.status();
    EXPECT_EQ((*y)[0].floats, Unwritten(parts[0]).floats);
    EXPECT_THAT((*y)[1].floats, testing::ElementsAre(2, 3, 5, 6));
  }
}

TEST(SplitTest, PartsThatDoNotAddUpAreRefused) {
  const auto y = RunKernel("Split", {{"axis", int64_t{1}}}, {RandomFloats({2, 3}, 1)},
                           {{DataType::kFloat32, {2, 1}}, {DataType::kFloat32, {2, 1}}}, {});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(CastTest, ConvertsValues) {
  const auto floats =
      RunKernel("Cast", {}, {Ints({3}, {1, -2, 7})}, {{DataType::kFloat32, {3}}}, {});
  EXPECT_THAT((*floats)[0].floats, testing::ElementsAre(1.0f, -2.0f, 7.0f));
  const auto bytes =
      RunKernel("Cast", {}, {Floats({2}, {3.7f, 255.0f})}, {{DataType::kUint8, {2}}}, {});
  EXPECT_THAT((*bytes)[0].bytes, testing::ElementsAre(3, 255));
}

TEST(LayoutTest, ElementwiseOpsWorkOnBlocksWithChannelParametersAndPlainImages) {
  const Shape shape = {2, 32, 3, 5};
  const Value x = RandomFloats(shape, 1), image = RandomFloats(shape, 2);
  const Value channels = RandomFloats({32, 1, 1}, 3), scalar = RandomFloats({}, 4);
  for (const Value& other : {image, channels, scalar}) {
    const auto want = RunKernel("Sub", {}, {x, other}, {x.spec}, {});
    ASSERT_TRUE(want.ok()) << want.status();
    for (CpuIsa isa : AllIsas()) {
      const Value blocked = ToBlocked(x);
      const auto got = RunKernel("Sub", {}, {blocked, other}, {blocked.spec}, {2, isa});
      ASSERT_TRUE(got.ok()) << got.status();
      EXPECT_EQ(ToPlain((*got)[0]).floats, (*want)[0].floats);
    }
  }
}

TEST(CpuKernelsTest, AnUnknownOpIsNotFoundByName) {
  const auto y = RunKernel("NoSuchOp", {}, {RandomFloats({2}, 1)}, {{DataType::kFloat32, {2}}}, {});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(y.status().message()), testing::HasSubstr("NoSuchOp"));
}

TEST(CpuKernelsTest, AnotherDtypeIsUnimplementedByName) {
  const auto y = RunKernel("Relu", {}, {Ints({2}, {1, 2})}, {{DataType::kInt32, {2}}}, {});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kUnimplemented);
  EXPECT_THAT(std::string(y.status().message()), testing::HasSubstr("Relu(int32 [2])"));
}

TEST(CpuKernelsTest, TheIsaNameNamesBothLibraries) {
  EXPECT_THAT(CpuIsaName(), testing::HasSubstr("dnnl-"));
}

}  // namespace
}  // namespace shoal::cpu
