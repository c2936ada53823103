// Tests which values are in blocks of 16 channels. The CPU's kernels support blocks only with
// AVX-512. Without it all values are plain, and only the results are compared.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "gtest/gtest.h"

#include "ml/graph/compiler.h"
#include "ml/graph/gradients.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"

namespace shoal {
namespace {

bool TakesBlocks() {
  return CpuKernelSupportsLayout("Conv", {}, Port::kInput, 0, Layout::kBlocked16);
}

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
    text_ = (*executable)->ToString();
    return RunOnce(executable->get(), feeds_, {});
  }

  // Steps of the op in what was compiled last, and those of them that touch blocked images.
  int Count(const std::string& op, bool blocked) const {
    int count = 0;
    for (absl::string_view line : absl::StrSplit(text_, '\n')) {
      if (!absl::StrContains(line, "= " + op + "(")) continue;
      count += blocked ? absl::StrContains(line, "blocked16") : 1;
    }
    return count;
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
  KernelBackend cpu_ = CpuKernelBackend();
  std::vector<std::pair<Output, Tensor>> feeds_;
  std::string text_;
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

// Three convolutions of 16 channels and more, and their gradients: all but the first read and give
// blocks, although a step gives their weights.
TEST_F(LayoutPassTest, ConvolutionsWhoseWeightsAStepGivesTakeBlocks) {
  const Output x = Input("x", {2, 3, 6, 6});
  std::vector<Output> weights = {Input("w0", {16, 3, 3, 3}), Input("w1", {32, 16, 3, 3}),
                                 Input("w2", {16, 32, 3, 3})};
  Output y = x;
  for (const Output& w : weights) y = Conv(y, builder_.Op("Tanh", {w}));
  const Output loss = ops::ReduceSum(builder_, ops::Square(builder_, y), {}, false);
  const auto gradients = BuildGradients(builder_, loss, weights);
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  for (DataType compute_dtype : {DataType::kFloat32, DataType::kBfloat16}) {
    const std::vector<Tensor> expected = RunOf(*gradients, false, compute_dtype);
    const std::vector<Tensor> got = RunOf(*gradients, true, compute_dtype);
    EXPECT_EQ(Count("Conv", false), 3) << text_;
    EXPECT_EQ(Count("ConvGrad", false), 3) << text_;
    EXPECT_EQ(Count("Conv", true), TakesBlocks() ? 3 : 0) << text_;
    EXPECT_EQ(Count("ConvGrad", true), TakesBlocks() ? 3 : 0) << text_;
    ASSERT_EQ(got.size(), expected.size());
    const double tolerance = compute_dtype == DataType::kFloat32 ? 1e-5 : 1e-2;
    for (size_t i = 0; i < got.size(); ++i) {
      EXPECT_LT(RelativeDistance(got[i], expected[i]), tolerance) << i;
    }
  }
}

}  // namespace
}  // namespace shoal
