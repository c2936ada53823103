// Runs allocate nothing.
#include <memory>
#include <utility>

#include "gtest/gtest.h"

#include "base/allocation_count.h"
#include "ml/graph/compiler.h"
#include "ml/graph/gradients.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/losses.h"
#include "ml/nn/zoo.h"

namespace shoal {
namespace {

class AllocationTest : public testing::TestWithParam<int> {};

TEST_P(AllocationTest, ATrainingStepAllocatesNothing) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", DataType::kFloat32, Shape({kUnknownDim, 60}));
  const Output target = builder.Placeholder("target", DataType::kFloat32, Shape({kUnknownDim, 60}));
  Output predictions;
  {
    const auto device = builder.WithDevice(GetParam() > 1 ? "/cpu:1" : "/cpu:0");
    predictions = zoo::Build(builder, "seed_mlp", x, {});
  }
  std::vector<Output> fetches = {
      AddLoss(builder, LossKind::kMeanSquaredError, predictions, target)};
  const auto gradients = BuildGradients(builder, fetches[0], graph.Collection(kTrainableVariables));
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  fetches.insert(fetches.end(), gradients->begin(), gradients->end());
  const std::vector<std::pair<Output, Tensor>> feeds = {
      {x, RandomTensor(DataType::kFloat32, {32, 60}, 1)},
      {target, RandomTensor(DataType::kFloat32, {32, 60}, 2)}};
  const KernelBackend backend = CpuKernelBackend();
  const auto executable = Compile(MakeRequest(graph, backend, feeds, fetches, GetParam()));
  ASSERT_TRUE(executable.ok()) << executable.status();

  std::vector<const void*> inputs = {feeds[0].second.data(), feeds[1].second.data()};
  const std::vector<Tensor> variables = InitialValues(graph, 1);
  std::vector<const void*> values;
  std::vector<void*> outputs;
  std::vector<Tensor> results;
  for (const Tensor& variable : variables) values.push_back(variable.data());
  for (const TensorSpec& spec : (*executable)->output_specs()) results.emplace_back(spec);
  for (Tensor& result : results) outputs.push_back(result.mutable_data());
  int num_final = 0;
  const auto run = [&] {
    (*executable)->Run({inputs, values, outputs, {}}, [&num_final](int, int64_t num_elements) {
      if (num_elements == Executable::kAll) ++num_final;
    });
  };
  for (int i = 0; i < 3; ++i) run();
  const int64_t before = NumAllocations();
  EXPECT_GT(before, 1000);  // building and compiling were counted
  for (int i = 0; i < 5; ++i) run();
  EXPECT_EQ(NumAllocations() - before, 0);
  EXPECT_EQ(num_final, 8 * static_cast<int>(fetches.size()));
}

INSTANTIATE_TEST_SUITE_P(Devices, AllocationTest, testing::Values(1, 2));

}  // namespace
}  // namespace shoal
