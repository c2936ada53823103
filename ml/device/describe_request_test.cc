#include "ml/device/describe_request.h"

#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(DescribeRequestTest, NamesOpTypesShapesAndLayouts) {
  const std::vector<TensorSpec> inputs = {{DataType::kFloat32, {2, 16, 4, 4}, Layout::kBlocked16},
                                          {DataType::kInt32, {2}}};
  const std::vector<TensorSpec> outputs = {{DataType::kFloat32, {}}};
  KernelRequest request;
  request.op = "Loss";
  request.inputs = inputs;
  request.outputs = outputs;
  EXPECT_EQ(DescribeRequest(request),
            "Loss(float32 [2,16,4,4] blocked16, int32 [2]) -> (float32 [])");
  request.inputs = {};
  EXPECT_EQ(DescribeRequest(request), "Loss() -> (float32 [])");
}

}  // namespace
}  // namespace shoal
