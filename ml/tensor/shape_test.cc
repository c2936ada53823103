#include "ml/tensor/shape.h"

#include "gtest/gtest.h"

#include "ml/tensor/tensor.h"

namespace shoal {
namespace {

TEST(ShapeTest, CountsElementsAndPrints) {
  EXPECT_EQ(Shape({2000, 600}).num_elements(), 1200000);
  EXPECT_EQ(Shape({2000, 600}).ToString(), "[2000,600]");
  EXPECT_EQ(Shape().num_elements(), 1);
  EXPECT_EQ(Shape().ToString(), "[]");
  EXPECT_EQ(Shape({3, 0}).num_elements(), 0);
}

TEST(ShapeTest, AnUnknownBatchIsNotACount) {
  const Shape shape({kUnknownDim, 10});
  EXPECT_FALSE(shape.IsKnown());
  EXPECT_EQ(shape.num_elements(), kUnknownDim);
  EXPECT_EQ(shape.ToString(), "[?,10]");
}

TEST(TensorTest, IsAlignedZeroedAndSharedByCopies) {
  Tensor tensor(DataType::kFloat32, Shape({3, 5}));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(tensor.data()) % 64, 0u);
  EXPECT_EQ(tensor.span<float>()[14], 0.0f);
  Tensor view = tensor;
  view.mutable_span<float>()[14] = 2.0f;
  EXPECT_EQ(tensor.span<float>()[14], 2.0f);
  EXPECT_EQ(Tensor::Of<int32_t>({2}, {4, 5}).span<int32_t>()[1], 5);
}

TEST(TensorSpecTest, PrintsTypeShapeAndLayout) {
  EXPECT_EQ((TensorSpec{DataType::kFloat32, {8, 32, 4, 4}, Layout::kBlocked16}).ToString(),
            "float32[8,32,4,4]:blocked16");
  EXPECT_EQ((TensorSpec{DataType::kInt64, {8}}).bytes(), 64u);
}

}  // namespace
}  // namespace shoal
