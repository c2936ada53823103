// Which values are in blocks of 16 channels. The CPU's kernels take these with AVX-512; without it
// everything is plain, and the numbers below are compared all the same.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

#include "ml/graph/compiler.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"

namespace shoal {
namespace {

class LayoutPassTest : public testing::Test {
 protected:
  Output Input(const std::string& name, const Shape& shape) {
    const Output input = builder_.Placeholder(name, DataType::kFloat32, shape);
    feeds_.push_back({input, RandomTensor(DataType::kFloat32, shape, feeds_.size() + 1, -3, 3)});
    return input;
  }

  Output Conv(const Output& images, const Output& weights) {
    return builder_.Op("Conv", {images, weights}, {{"pads", std::vector<int64_t>{1, 1, 1, 1}}});
  }

  std::vector<Tensor> RunOf(const std::vector<Output>& fetches, bool choose_layouts,
                            DataType compute_dtype = DataType::kFloat32) {
    CompileRequest request = MakeRequest(graph_, cpu_, feeds_, fetches);
    request.choose_layouts = choose_layouts;
    request.compute_dtype = compute_dtype;
    const absl::StatusOr<std::unique_ptr<Executable>> executable = Compile(request);
    EXPECT_TRUE(executable.ok()) << executable.status();
    if (!executable.ok()) return {};
    return RunOnce(executable->get(), feeds_, {});
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
  KernelBackend cpu_ = CpuKernelBackend();
  std::vector<std::pair<Output, Tensor>> feeds_;
};

TEST_F(LayoutPassTest, ImagesAreCastToEveryType) {
  const Output y = builder_.Op("Relu", {Conv(Input("x", {2, 3, 6, 6}), Input("w", {16, 3, 3, 3}))});
  for (DataType to : {DataType::kFloat32, DataType::kFloat64, DataType::kInt32, DataType::kInt64,
                      DataType::kUint8, DataType::kBool, DataType::kBfloat16}) {
    const Output cast = ops::Cast(builder_, y, to);
    const std::vector<Tensor> got = RunOf({cast, y}, true), expected = RunOf({cast, y}, false);
    ASSERT_EQ(got.size(), 2u) << DataTypeName(to);
    EXPECT_EQ(got[0].spec(), expected[0].spec());
    const Output back = ops::Cast(builder_, cast, DataType::kFloat32);
    EXPECT_LT(RelativeDistance(RunOf({back}, true)[0], RunOf({back}, false)[0]), 1e-2)
        << DataTypeName(to);
  }
}

}  // namespace
}  // namespace shoal
