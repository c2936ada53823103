// Tests the inputs of a graph that belong to tables, and the gradients of their rows.
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/graph/compiler.h"
#include "ml/graph/gradients.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Two features that read the same table, in a batch of three examples.
class TableInputsTest : public testing::Test {
 protected:
  TableInputsTest() {
    rows_ = builder_.TableRows("item", 4);
    Feed(rows_, RandomTensor(DataType::kFloat32, {5, 4}, 1));
    const Output offsets = builder_.Placeholder("offsets", DataType::kInt64, Shape({kUnknownDim}));
    Feed(offsets, Tensor::Of<int64_t>({4}, {0, 2, 2, 3}));
    std::vector<Output> features;
    for (const auto& [column, ids] :
         {std::pair<std::string, std::vector<int32_t>>{"clicked", {0, 3, 3}},
          {"seen", {2, 0, 1}}}) {
      const Output indices = builder_.TableIndices("item", column);
      // The feed has room for more ids than the batch has.
      Feed(indices, Tensor::Of<int32_t>({6}, {ids[0], ids[1], ids[2], 4, 4, 4}));
      features.push_back(
          ops::EmbeddingBag(builder_, rows_, indices, offsets, {}, column == "seen"));
    }
    const Output dots = ops::PairwiseDots(builder_, features);
    loss_ = ops::ReduceSum(builder_, ops::Square(builder_, dots));
  }

  void Feed(Output placeholder, Tensor tensor) {
    feeds_.emplace_back(placeholder, std::move(tensor));
  }

  Graph graph_;
  GraphBuilder builder_{&graph_};
  KernelBackend backend_ = CpuKernelBackend();
  Output rows_, loss_;
  std::vector<std::pair<Output, Tensor>> feeds_;
};

TEST_F(TableInputsTest, AreMadeOnceForEachTableAndColumn) {
  EXPECT_EQ(builder_.TableRows("item", 4), rows_);
  ASSERT_EQ(graph_.table_inputs().size(), 1u);
  const TableInput& item = graph_.table_inputs()[0];
  EXPECT_EQ(item.rows.name(), "tables/item");
  ASSERT_EQ(item.lookups.size(), 2u);
  EXPECT_EQ(builder_.TableIndices("item", "seen"), item.lookups[1].indices);
  {
    const auto clone = builder_.WithClone(1, 2);
    EXPECT_EQ(builder_.TableRows("item", 4), rows_);
    EXPECT_NE(builder_.TableIndices("item", "seen"), item.lookups[1].indices);
  }
  EXPECT_EQ(builder_.status(), absl::OkStatus());
  builder_.TableRows("item", 8);
  EXPECT_THAT(std::string(builder_.status().message()),
              HasSubstr("table item has rows of 4 and of 8 numbers"));
}

TEST_F(TableInputsTest, TheGradientOfTheRowsIsOneSumOverAllFeatures) {
  const auto gradients = BuildGradients(builder_, loss_, {rows_});
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  CompileRequest request = MakeRequest(graph_, backend_, feeds_, {loss_, (*gradients)[0]});
  const auto fused = Compile(request);
  ASSERT_TRUE(fused.ok()) << fused.status();
  EXPECT_THAT((*fused)->ToString(), Not(HasSubstr("= AddN(")));
  request.fuse = false;
  const auto unfused = Compile(request);
  ASSERT_TRUE(unfused.ok()) << unfused.status();
  EXPECT_THAT((*unfused)->ToString(), HasSubstr("= AddN("));
  const std::vector<Tensor> a = RunOnce(fused->get(), feeds_, {});
  const std::vector<Tensor> b = RunOnce(unfused->get(), feeds_, {});
  EXPECT_EQ(a[1].shape(), Shape({5, 4}));
  EXPECT_LE(RelativeDistance(a[1], b[1]), 1e-6);
  // Row 4 belongs to no id of the batch.
  for (int64_t i = 16; i < 20; ++i) EXPECT_EQ(a[1].span<float>()[i], 0);
  // A small step against the gradient lowers the loss by its squared norm times the step.
  double square = 0;
  absl::Span<float> rows = feeds_[0].second.mutable_span<float>();
  for (size_t i = 0; i < rows.size(); ++i) {
    const double g = a[1].span<float>()[i];
    square += g * g;
    rows[i] -= static_cast<float>(1e-3 * g);
  }
  const double lowered =
      a[0].span<float>()[0] - RunOnce(fused->get(), feeds_, {})[0].span<float>()[0];
  EXPECT_NEAR(lowered, 1e-3 * square, 0.05 * 1e-3 * square);
}

}  // namespace
}  // namespace shoal
