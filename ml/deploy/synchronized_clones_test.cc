// Tests layers that exchange values between the clones of a replica.
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

#include "ml/deploy/model_deploy.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/reference/reference_kernels.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/model.h"
#include "ml/nn/normalization_layers.h"
#include "proto/v1/optimizer_config.pb.h"

namespace shoal {
namespace {

// Rows [begin, end) of a tensor of two dimensions.
Tensor Rows(const Tensor& all, int64_t begin, int64_t end) {
  const int64_t columns = all.shape().dim(1);
  Tensor rows(all.dtype(), {end - begin, columns});
  for (int64_t i = 0; i < rows.shape().num_elements(); ++i) {
    rows.mutable_span<float>()[i] = all.span<float>()[begin * columns + i];
  }
  return rows;
}

// Two dense layers with a synchronised norm after each: the second one's gradient flows back
// through the first one's exchange.
std::vector<Output> SynchronizedNet(GraphBuilder& builder, InputQueue& queue) {
  const auto scope = builder.WithVariableScope("Net");
  const std::vector<Output> batch = queue.Dequeue(builder);
  Output x = batch[0];
  for (int64_t units : {5, 3}) {
    DenseOptions dense;
    dense.units = units;
    dense.weight_decay = 0.01;
    BatchNormOptions norm;
    norm.sync_clones = true;
    x = Activate(builder, BatchNorm(builder, Dense(builder, x, dense), norm), Activation::kTanh);
  }
  DenseOptions last;
  last.units = 1;
  last.activation = Activation::kSigmoid;
  const Output predictions = Dense(builder, x, last);
  AddLogLoss(builder, predictions, batch[1]);
  return {predictions};
}

// The total loss, the gradients and the statistics of one step; the clones take their shares of the
// same examples in turn.
std::vector<Tensor> SynchronizedStep(const Tensor& inputs, const Tensor& labels,
                                     const std::vector<int64_t>& shares, int num_devices) {
  Graph graph;
  GraphBuilder builder(&graph);
  InputQueue queue{{{"input", {DataType::kFloat32, {4}}}, {"label", {DataType::kFloat32, {1}}}}};
  v1::OptimizerConfig sgd;
  DeploymentConfigOptions options;
  options.num_clones = static_cast<int>(shares.size());
  for (size_t c = 0; c < shares.size(); ++c) {
    options.clone_devices.push_back(absl::StrCat("/cpu:", c % num_devices));
  }
  const auto config = DeploymentConfig::Create(options);
  EXPECT_TRUE(config.ok()) << config.status();
  const auto model = Deploy(
      *config, builder, [&](GraphBuilder& b) { return SynchronizedNet(b, queue); }, &sgd);
  EXPECT_TRUE(model.ok()) << model.status();
  std::vector<std::pair<Output, Tensor>> feeds;
  int64_t row = 0;
  for (size_t c = 0; c < shares.size(); row += shares[c++]) {
    if (shares[c] == 0) continue;
    feeds.emplace_back(queue.batches()[c][0], Rows(inputs, row, row + shares[c]));
    feeds.emplace_back(queue.batches()[c][1], Rows(labels, row, row + shares[c]));
  }
  std::vector<Output> fetches = {model->total_loss};
  for (const GradientAndVariable& pair : model->train_op->gradients) {
    fetches.push_back(pair.gradient);
  }
  const std::vector<Output>& updates = model->train_op->update_ops;
  fetches.insert(fetches.end(), updates.begin(), updates.end());
  const KernelBackend backend = ReferenceKernelBackend();
  CompileRequest request = MakeRequest(graph, backend, feeds, fetches, num_devices);
  request.clone_examples = shares;
  const auto executable = Compile(request);
  EXPECT_TRUE(executable.ok()) << executable.status();
  return RunOnce(executable->get(), feeds, InitialValues(graph, 3));
}

TEST(SynchronizedClonesTest, SynchronizedClonesComputeWhatOneCloneOfAllExamplesDoes) {
  const Tensor inputs = RandomTensor(DataType::kFloat32, {16, 4}, 1);
  Tensor labels(DataType::kFloat32, {16, 1});
  for (int i = 0; i < 16; ++i) labels.mutable_span<float>()[i] = i % 3 == 0 ? 1 : 0;
  const std::vector<Tensor> whole = SynchronizedStep(inputs, labels, {16}, 1);
  ASSERT_EQ(whole.size(), 1u + 10 + 4);  // loss; 3 dense and 2 norms of two each; 2 moments of both
  for (int devices : {1, 2}) {
    for (const std::vector<int64_t>& shares :
         {std::vector<int64_t>{8, 8}, {11, 5}, {7, 0, 9}, {1, 15}}) {
      const std::vector<Tensor> parts = SynchronizedStep(inputs, labels, shares, devices);
      ASSERT_EQ(parts.size(), whole.size());
      for (size_t i = 0; i < whole.size(); ++i) {
        for (int64_t e = 0; e < whole[i].shape().num_elements(); ++e) {
          EXPECT_NEAR(parts[i].span<float>()[e], whole[i].span<float>()[e], 2e-6)
              << "result " << i << ", first share " << shares[0] << ", devices " << devices;
        }
      }
    }
  }
}

// The same for images, where pixels count too, and one norm whose gradient goes nowhere else.
TEST(SynchronizedClonesTest, MomentsOfImagesAreThoseOfAllPixels) {
  const Tensor all = RandomTensor(DataType::kFloat32, {6, 2, 3, 3}, 1);
  const auto moments = [&](const std::vector<int64_t>& shares) {
    Graph graph;
    GraphBuilder builder(&graph);
    InputQueue queue{{{"input", {DataType::kFloat32, {2, 3, 3}}}}};
    DeploymentConfigOptions options;
    options.num_clones = static_cast<int>(shares.size());
    options.clone_on_cpu = true;
    const auto clones =
        CreateClones(*DeploymentConfig::Create(options), builder, [&](GraphBuilder& b) {
          BatchNormOptions norm;
          norm.sync_clones = true;
          return std::vector<Output>{BatchNorm(b, queue.Dequeue(b)[0], norm)};
        });
    EXPECT_TRUE(clones.ok()) << clones.status();
    std::vector<std::pair<Output, Tensor>> feeds;
    int64_t from = 0;
    for (size_t c = 0; c < shares.size(); ++c) {
      Tensor part(DataType::kFloat32, {shares[c], 2, 3, 3});
      for (int64_t i = 0; i < shares[c] * 18; ++i) {
        part.mutable_span<float>()[i] = all.span<float>()[from++];
      }
      feeds.emplace_back(queue.batches()[c][0], part);
    }
    std::vector<Output> fetches = graph.Collection(kUpdateOps, (*clones)[0].scope);
    for (const Clone& clone : *clones) fetches.push_back(clone.outputs[0]);
    const auto results =
        RunGraph(graph, ReferenceKernelBackend(), feeds, InitialValues(graph, 1), fetches);
    EXPECT_TRUE(results.ok()) << results.status();
    return *results;
  };
  const std::vector<Tensor> whole = moments({6}), parts = moments({4, 2});
  for (int i = 0; i < 2; ++i) {
    for (int c = 0; c < 2; ++c) {
      EXPECT_NEAR(parts[i].span<float>()[c], whole[i].span<float>()[c], 1e-6);
    }
  }
  for (int i = 0; i < 6 * 18; ++i) {
    const float part = i < 4 * 18 ? parts[2].span<float>()[i] : parts[3].span<float>()[i - 4 * 18];
    EXPECT_NEAR(part, whole[2].span<float>()[i], 2e-6);
  }
}

TEST(SynchronizedClonesTest, ClonesThatExchangeInDifferentOrdersAreRefused) {
  Graph graph;
  GraphBuilder builder(&graph);
  DeploymentConfigOptions options;
  options.num_clones = 2;
  options.clone_on_cpu = true;
  const auto clones =
      CreateClones(*DeploymentConfig::Create(options), builder, [](GraphBuilder& b) {
        const bool is_first = b.clone_index() == 0;
        const Output x = b.SumOverClones(ops::Constant(b, 1), is_first ? "a" : "b");
        return std::vector<Output>{b.SumOverClones(x, is_first ? "b" : "a")};
      });
  EXPECT_EQ(clones.status().message(),
            "the clones exchange values in different orders; build all of them by the same calls");
}

// The message of a model whose second clone differs.
std::string RefusalOf(const CloneFunction& model_fn) {
  Graph graph;
  GraphBuilder builder(&graph);
  DeploymentConfigOptions options;
  options.num_clones = 3;
  options.clone_on_cpu = true;
  const auto clones = CreateClones(*DeploymentConfig::Create(options), builder, model_fn);
  EXPECT_EQ(clones.status().code(), absl::StatusCode::kInvalidArgument);
  return std::string(clones.status().message());
}

TEST(SynchronizedClonesTest, ACloneWithoutTheLayerIsRefusedByName) {
  InputQueue queue{{{"input", {DataType::kFloat32, {4}}}}};
  const auto norm_in = [&](GraphBuilder& b, absl::string_view scope) {
    BatchNormOptions norm;
    norm.sync_clones = true;
    norm.scope = std::string(scope);
    return std::vector<Output>{BatchNorm(b, queue.Dequeue(b)[0], norm)};
  };
  const std::string skipped = RefusalOf([&](GraphBuilder& b) {
    return b.clone_index() == 1 ? queue.Dequeue(b) : norm_in(b, "Norm");
  });
  EXPECT_TRUE(absl::StartsWith(skipped, "clone 1 gives nothing for Norm/count,")) << skipped;
  const std::string renamed = RefusalOf([&](GraphBuilder& b) {
    const Output x = b.Placeholder("x", DataType::kFloat32, Shape({kUnknownDim}));
    const auto scope = b.WithVariableScope(b.clone_index() == 2 ? "Other" : "Norm");
    return std::vector<Output>{b.SumOverClones(ops::ReduceSum(b, x, {0}), "count")};
  });
  EXPECT_TRUE(absl::StartsWith(renamed, "clone 2 gives nothing for Norm/count,")) << renamed;
}

}  // namespace
}  // namespace shoal
