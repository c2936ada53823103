#include "tests/toolchain/cublaslt_matmul.h"

#include <iostream>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::Each;

TEST(CublasLtMatmulTest, ComputesOrReturnsAReason) {
  const absl::StatusOr<std::vector<float>> product = MultiplyFilled(64, 2.0f, 3.0f);
  if (!product.ok()) {
    std::cout << product.status() << std::endl;
    EXPECT_TRUE(absl::IsUnavailable(product.status())) << product.status();
    return;
  }
  EXPECT_EQ(product->size(), 64u * 64u);
  EXPECT_THAT(*product, Each(64 * 6.0f));
}

}  // namespace
}  // namespace shoal
