// The cases of TF-Slim's own test of model_deploy, and cases that it does not test.
#include "ml/deploy/model_deploy.h"

#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

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

constexpr int kExamples = 16;

DeploymentConfig Config(DeploymentConfigOptions options) {
  absl::StatusOr<DeploymentConfig> config = DeploymentConfig::Create(std::move(options));
  EXPECT_TRUE(config.ok()) << config.status();
  return *config;
}

Output SigmoidLayer(GraphBuilder& builder, Output x) {
  DenseOptions options;
  options.units = 1;
  options.activation = Activation::kSigmoid;
  return Dense(builder, x, options);
}

std::vector<Output> LogisticClassifier(GraphBuilder& builder, InputQueue& queue) {
  const auto scope = builder.WithVariableScope("LogisticClassifier");
  const std::vector<Output> batch = queue.Dequeue(builder);
  const Output predictions = SigmoidLayer(builder, batch[0]);
  AddLogLoss(builder, predictions, batch[1]);
  return {predictions};
}

std::vector<Output> BatchNormClassifier(GraphBuilder& builder, InputQueue& queue) {
  const auto scope = builder.WithVariableScope("BatchNormClassifier");
  const std::vector<Output> batch = queue.Dequeue(builder);
  BatchNormOptions norm;
  norm.decay = 0.1;
  norm.use_scale = false;
  const Output predictions = SigmoidLayer(builder, BatchNorm(builder, batch[0], norm));
  AddLogLoss(builder, predictions, batch[1]);
  return {predictions};
}

class ModelDeployTest : public testing::Test {
 protected:
  ModelDeployTest() {
    inputs_ = Tensor(DataType::kFloat32, {kExamples, 4});
    labels_ = Tensor(DataType::kFloat32, {kExamples, 1});
    for (int i = 0; i < kExamples; ++i) {
      const int label = (i * 7 / 3) % 2;
      labels_.mutable_span<float>()[i] = static_cast<float>(label);
      inputs_.mutable_span<float>()[i * 4 + 2 * label + (i % 5 > 2 ? 1 : 0)] = 1;
    }
  }

  CloneFunction Logistic() {
    return [this](GraphBuilder& builder) { return LogisticClassifier(builder, queue_); };
  }
  CloneFunction BatchNormed() {
    return [this](GraphBuilder& builder) { return BatchNormClassifier(builder, queue_); };
  }

  std::vector<Clone> Clones(const DeploymentConfig& config, const CloneFunction& model_fn) {
    absl::StatusOr<std::vector<Clone>> clones = CreateClones(config, builder_, model_fn);
    EXPECT_TRUE(clones.ok()) << clones.status();
    return *std::move(clones);
  }

  // Every clone gets all examples.
  std::vector<std::pair<Output, Tensor>> Feeds() const {
    std::vector<std::pair<Output, Tensor>> feeds;
    for (const std::vector<Output>& batch : queue_.batches()) {
      feeds.emplace_back(batch[0], inputs_);
      feeds.emplace_back(batch[1], labels_);
    }
    return feeds;
  }

  std::vector<std::string> VariableDevices() const {
    std::vector<std::string> devices;
    for (const Variable& variable : graph_.variables()) {
      devices.push_back(variable.node->device.ToString());
    }
    return devices;
  }

  Tensor inputs_, labels_;
  InputQueue queue_{{{"input", {DataType::kFloat32, {4}}}, {"label", {DataType::kFloat32, {1}}}}};
  Graph graph_;
  GraphBuilder builder_{&graph_};
  v1::OptimizerConfig sgd_;
};

TEST_F(ModelDeployTest, AModelAloneNeedsNoDeployment) {
  const std::vector<Output> outputs = LogisticClassifier(builder_, queue_);
  EXPECT_EQ(outputs[0].name(), "LogisticClassifier/fully_connected/Sigmoid");
  EXPECT_EQ(graph_.variables().size(), 2u);
  EXPECT_EQ(graph_.Collection(kUpdateOps).size(), 0u);
}

TEST_F(ModelDeployTest, ASingleCloneHasNoScope) {
  const std::vector<Clone> clones = Clones(Config({1, true}), BatchNormed());
  ASSERT_EQ(clones.size(), 1u);
  EXPECT_EQ(graph_.variables().size(), 5u);
  EXPECT_EQ(clones[0].outputs[0].name(), "BatchNormClassifier/fully_connected/Sigmoid");
  EXPECT_EQ(clones[0].outputs[0].node->device.ToString(), "/device:CPU:0");
  EXPECT_EQ(clones[0].scope, "");
  EXPECT_EQ(clones[0].device, "/device:CPU:0");
  EXPECT_EQ(graph_.Collection(kUpdateOps).size(), 2u);
}

TEST_F(ModelDeployTest, ClonesShareVariablesAndHaveTheirOwnScopes) {
  const std::vector<Clone> clones = Clones(Config({4}), BatchNormed());
  EXPECT_EQ(graph_.variables().size(), 5u);
  for (const std::string& device : VariableDevices()) EXPECT_EQ(device, "/device:CPU:0");
  for (int i = 0; i < 4; ++i) {
    const std::string scope = absl::StrCat("clone_", i, "/");
    EXPECT_EQ(clones[i].scope, scope);
    EXPECT_EQ(clones[i].device, absl::StrCat("/device:GPU:", i));
    EXPECT_EQ(clones[i].outputs[0].name(),
              absl::StrCat(scope, "BatchNormClassifier/fully_connected/Sigmoid"));
    EXPECT_EQ(clones[i].outputs[0].node->device.ToString(), clones[i].device);
    EXPECT_EQ(graph_.Collection(kUpdateOps, scope).size(), 2u);
  }
  EXPECT_EQ(queue_.batches().size(), 4u);
}

TEST_F(ModelDeployTest, WithOnePsVariablesAreOnThePsAndTheCloneIsOnTheWorker) {
  const std::vector<Clone> clones = Clones(Config({1, false, 0, 1, 1}), BatchNormed());
  EXPECT_EQ(clones[0].device, "/job:worker/device:GPU:0");
  EXPECT_EQ(clones[0].scope, "");
  EXPECT_EQ(VariableDevices(), std::vector<std::string>(5, "/job:ps/task:0/device:CPU:0"));
  EXPECT_EQ(clones[0].outputs[0].node->device.ToString(), "/job:worker/device:GPU:0");
}

TEST_F(ModelDeployTest, TwoPsGetTheVariablesInTurn) {
  Clones(Config({2, false, 0, 1, 2}), BatchNormed());
  const std::string first = "/job:ps/task:0/device:CPU:0";
  const std::string second = "/job:ps/task:1/device:CPU:0";
  EXPECT_EQ(VariableDevices(), (std::vector<std::string>{first, second, first, second, first}));
}

TEST_F(ModelDeployTest, ASingleClonesGradientsPassThrough) {
  const std::vector<Clone> clones = Clones(Config({1, true}), BatchNormed());
  const auto optimized = OptimizeClones(builder_, clones);
  ASSERT_TRUE(optimized.ok()) << optimized.status();
  EXPECT_EQ(optimized->gradients.size(), 3u);
  EXPECT_TRUE(absl::StartsWith(optimized->total_loss.name(), "BatchNormClassifier/log_loss_loss"));
  for (const GradientAndVariable& pair : optimized->gradients) {
    EXPECT_FALSE(absl::EndsWith(pair.gradient.name(), "sum_grads")) << pair.gradient.name();
    EXPECT_EQ(pair.gradient.node->device.ToString(), "/device:CPU:0");
  }
}

TEST_F(ModelDeployTest, GradientsOfClonesAreSummedOnTheOptimizersDevice) {
  const DeploymentConfig config = Config({2});
  const std::vector<Clone> clones = Clones(config, BatchNormed());
  const auto device = builder_.WithDevice(config.optimizer_device());
  const auto optimized = OptimizeClones(builder_, clones);
  ASSERT_TRUE(optimized.ok()) << optimized.status();
  ASSERT_EQ(optimized->gradients.size(), 3u);
  EXPECT_EQ(optimized->total_loss.name(), "total_loss");
  for (const GradientAndVariable& pair : optimized->gradients) {
    EXPECT_EQ(pair.gradient.name(), pair.variable.name() + "/sum_grads");
    EXPECT_EQ(pair.gradient.node->device.ToString(), "/device:CPU:0");
    ASSERT_EQ(pair.gradient.node->inputs.size(), 2u);
    EXPECT_EQ(pair.gradient.node->inputs[1].node->device.ToString(), "/device:GPU:1");
    EXPECT_EQ(pair.gradient.shape(), pair.variable.shape());
  }
}

TEST_F(ModelDeployTest, WithPsGradientsStayOnTheWorker) {
  const DeploymentConfig config = Config({1, false, 0, 1, 1});
  const std::vector<Clone> clones = Clones(config, BatchNormed());
  const auto optimized = OptimizeClones(builder_, clones);
  ASSERT_TRUE(optimized.ok()) << optimized.status();
  for (const GradientAndVariable& pair : optimized->gradients) {
    EXPECT_EQ(pair.gradient.node->device.ToString(), "/job:worker/device:GPU:0");
    EXPECT_EQ(pair.variable.node->device.ToString(), "/job:ps/task:0/device:CPU:0");
  }
}

// A classifier of the rows that a table has for the ids of the examples.
std::vector<Output> TableClassifier(GraphBuilder& builder, InputQueue& queue) {
  const auto scope = builder.WithVariableScope("TableClassifier");
  const std::vector<Output> batch = queue.Dequeue(builder);
  const Output rows = builder.TableRows("item", 4);
  const Output x = ops::Gather(builder, rows, builder.TableIndices("item", "id"));
  AddLogLoss(builder, SigmoidLayer(builder, ops::Add(builder, x, batch[0])), batch[1]);
  return {x};
}

TEST_F(ModelDeployTest, AllClonesAddToTheGradientOfATablesRows) {
  std::vector<Tensor> gradients;
  for (const int clones : {1, 2}) {
    Graph graph;
    GraphBuilder builder(&graph);
    InputQueue queue(queue_.fields());
    const auto model = Deploy(
        Config({clones, true}), builder,
        [&](GraphBuilder& clone) { return TableClassifier(clone, queue); }, &sgd_);
    ASSERT_TRUE(model.ok()) << model.status();
    ASSERT_EQ(graph.table_inputs().size(), 1u);
    const TableInput& item = graph.table_inputs()[0];
    ASSERT_EQ(item.lookups.size(), static_cast<size_t>(clones));
    ASSERT_EQ(model->train_op->row_gradients.size(), 1u);
    EXPECT_EQ(model->train_op->row_gradients[0].variable, item.rows);
    EXPECT_EQ(model->train_op->gradients.size(), 2u) << "weights and biases";
    std::vector<std::pair<Output, Tensor>> feeds = {
        {item.rows, RandomTensor(DataType::kFloat32, {3, 4}, 5)}};
    const int64_t examples = kExamples / clones;
    for (int c = 0; c < clones; ++c) {
      Tensor ids(DataType::kInt32, {examples});
      Tensor inputs(DataType::kFloat32, {examples, 4}), labels(DataType::kFloat32, {examples, 1});
      for (int64_t i = 0; i < examples; ++i) {
        const int64_t example = c * examples + i;
        ids.mutable_span<int32_t>()[i] = static_cast<int32_t>(example % 2);
        labels.mutable_span<float>()[i] = labels_.span<float>()[example];
        for (int64_t d = 0; d < 4; ++d) {
          inputs.mutable_span<float>()[i * 4 + d] = inputs_.span<float>()[example * 4 + d];
        }
      }
      feeds.emplace_back(queue.batches()[c][0], std::move(inputs));
      feeds.emplace_back(queue.batches()[c][1], std::move(labels));
      feeds.emplace_back(item.lookups[c].indices, std::move(ids));
    }
    const KernelBackend backend = ReferenceKernelBackend();
    const auto results = RunGraph(graph, backend, feeds, InitialValues(graph, 3),
                                  {model->train_op->row_gradients[0].gradient});
    ASSERT_TRUE(results.ok()) << results.status();
    gradients.push_back((*results)[0]);
  }
  EXPECT_LE(RelativeDistance(gradients[1], gradients[0]), 1e-6);
  for (int64_t i = 8; i < 12; ++i) EXPECT_EQ(gradients[0].span<float>()[i], 0) << "an unused row";
}

TEST_F(ModelDeployTest, TrainingLowersTheLossAndGathersTheFullBatchsStatistics) {
  const auto model = Deploy(Config({2, true}), builder_, BatchNormed(), &sgd_);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_TRUE(model->train_op.has_value());
  const TrainOp& train_op = *model->train_op;
  ASSERT_EQ(train_op.update_ops.size(), 2u);
  EXPECT_EQ(train_op.optimizer, &sgd_);
  std::vector<Output> fetches = {train_op.total_loss};
  for (const GradientAndVariable& pair : train_op.gradients) fetches.push_back(pair.gradient);
  fetches.insert(fetches.end(), train_op.update_ops.begin(), train_op.update_ops.end());
  std::vector<Tensor> variables = InitialValues(graph_, 3);
  const KernelBackend backend = ReferenceKernelBackend();
  const auto executable = Compile(MakeRequest(graph_, backend, Feeds(), fetches));
  ASSERT_TRUE(executable.ok()) << executable.status();
  float initial_loss = 0, loss = 0;
  for (int step = 0; step < 10; ++step) {
    const std::vector<Tensor> results = RunOnce(executable->get(), Feeds(), variables);
    loss = results[0].span<float>()[0];
    if (step == 0) initial_loss = loss;
    for (size_t g = 0; g < train_op.gradients.size(); ++g) {
      Tensor& variable = variables[train_op.gradients[g].variable.node->variable_index];
      for (int64_t i = 0; i < variable.shape().num_elements(); ++i) {
        variable.mutable_span<float>()[i] -= results[1 + g].span<float>()[i];
      }
    }
    for (size_t u = 0; u < train_op.update_ops.size(); ++u) {
      const Variable& target =
          *graph_.FindVariable(train_op.update_ops[u].node->attributes.GetString("variable", ""));
      Tensor& average = variables[target.node->variable_index];
      const Tensor& statistic = results[1 + train_op.gradients.size() + u];
      for (int i = 0; i < 4; ++i) {
        average.mutable_span<float>()[i] =
            static_cast<float>(target.spec.decay * average.span<float>()[i] +
                               (1 - target.spec.decay) * statistic.span<float>()[i]);
      }
    }
  }
  EXPECT_LT(loss, initial_loss / 5);
  const auto value_of = [&](const char* name) {
    return variables[graph_.FindVariable(name)->node->variable_index].span<float>();
  };
  for (int column = 0; column < 4; ++column) {
    double mean = 0, square = 0;
    for (int i = 0; i < kExamples; ++i) {
      mean += inputs_.span<float>()[i * 4 + column] / kExamples;
      square += std::pow(inputs_.span<float>()[i * 4 + column], 2) / kExamples;
    }
    EXPECT_NEAR(value_of("BatchNormClassifier/BatchNorm/moving_mean")[column], mean, 1e-5);
    const double variance = (square - mean * mean) * kExamples / (kExamples - 1);
    EXPECT_NEAR(value_of("BatchNormClassifier/BatchNorm/moving_variance")[column], variance, 1e-5);
  }
}

TEST_F(ModelDeployTest, OnlyRegularizationIsALossOfTheFirstClone) {
  const auto regularized = [this](GraphBuilder& builder) -> std::vector<Output> {
    DenseOptions options;
    options.units = 1;
    options.weight_decay = 0.1;
    return {Dense(builder, queue_.Dequeue(builder)[0], options)};
  };
  const auto model = Deploy(Config({2, true}), builder_, regularized, &sgd_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->data_loss.valid());
  EXPECT_EQ(model->total_loss, model->regularization_loss);
  ASSERT_EQ(model->train_op->gradients.size(), 1u);
  EXPECT_EQ(model->train_op->gradients[0].variable.name(), "fully_connected/weights");
}

TEST_F(ModelDeployTest, RegularizationEntersOnce) {
  const auto regularized = [this](GraphBuilder& builder) -> std::vector<Output> {
    const std::vector<Output> batch = queue_.Dequeue(builder);
    DenseOptions options;
    options.units = 1;
    options.activation = Activation::kSigmoid;
    options.weight_decay = 0.5;
    options.weights_initializer = ConstantInitializer(1);
    const Output predictions = Dense(builder, batch[0], options);
    AddLogLoss(builder, predictions, batch[1]);
    return {predictions};
  };
  const auto model = Deploy(Config({3, true}), builder_, regularized, &sgd_);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto results = RunGraph(graph_, ReferenceKernelBackend(), Feeds(), InitialValues(graph_, 1),
                                {model->total_loss, model->data_loss, model->regularization_loss});
  ASSERT_TRUE(results.ok()) << results.status();
  const float total = (*results)[0].span<float>()[0];
  const float data = (*results)[1].span<float>()[0];
  EXPECT_FLOAT_EQ((*results)[2].span<float>()[0], 0.5f * 4 / 2);
  EXPECT_FLOAT_EQ(total, data + 1.0f);
}

TEST_F(ModelDeployTest, ExcludedRegularizationLeavesTheGradients) {
  const std::vector<Clone> clones = Clones(Config({1, true}), [this](GraphBuilder& builder) {
    DenseOptions options;
    options.units = 1;
    options.weight_decay = 0.5;
    return std::vector<Output>{Dense(builder, queue_.Dequeue(builder)[0], options)};
  });
  OptimizeClonesOptions options;
  options.regularization_losses.emplace();
  EXPECT_EQ(OptimizeClones(builder_, clones, options).status().message(),
            "no clone has a loss; add one to the losses collection in the model function");
}

TEST_F(ModelDeployTest, WithoutOptimizerThereIsALossButNothingToTrain) {
  const auto model = Deploy(Config({2}), builder_, BatchNormed());
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->train_op.has_value());
  EXPECT_EQ(model->total_loss.name(), "total_loss");
  EXPECT_EQ(graph_.FindNode("global_step"), nullptr);
}

TEST_F(ModelDeployTest, WithoutAnyLossTheTotalIsAbsentUnlessItMustBeTrained) {
  const CloneFunction lossless = [this](GraphBuilder& builder) -> std::vector<Output> {
    return {SigmoidLayer(builder, queue_.Dequeue(builder)[0])};
  };
  const auto model = Deploy(Config({2}), builder_, lossless);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->total_loss.valid());
  EXPECT_TRUE(model->summaries.empty());
  Graph other;
  GraphBuilder other_builder(&other);
  EXPECT_FALSE(Deploy(Config({2}), other_builder, lossless, &sgd_).ok());
}

TEST_F(ModelDeployTest, AConstantLossTrainsNothing) {
  const auto model = Deploy(
      Config({1, true}), builder_,
      [](GraphBuilder& builder) -> std::vector<Output> {
        const Output loss = ops::Constant(builder, 1);
        builder.AddToCollection(kLosses, loss);
        return {loss};
      },
      &sgd_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_FALSE(model->train_op.has_value());
  EXPECT_TRUE(model->total_loss.valid());
}

TEST_F(ModelDeployTest, GlobalStepIsOnTheFirstPs) {
  const auto model = Deploy(Config({1, false, 0, 1, 2}), builder_, BatchNormed(), &sgd_);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->train_op->global_step.node->device.ToString(), "/job:ps/task:0/device:CPU:0");
  EXPECT_EQ(model->train_op->global_step.name(), "global_step");
}

TEST_F(ModelDeployTest, SummariesNameTheFirstClonesLossAndTheTotal) {
  const auto model = Deploy(Config({2}), builder_, BatchNormed(), &sgd_);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->summaries.size(), 2u);
  EXPECT_EQ(model->summaries[0].name, "clone_0/clone_loss");
  EXPECT_EQ(model->summaries[0].value.name(), "clone_0/scaled_clone_loss");
  EXPECT_EQ(model->summaries[1].name, "total_loss");
}

TEST_F(ModelDeployTest, GradientsAreSummarisedOnRequest) {
  const auto without = Deploy(Config({1}), builder_, Logistic(), &sgd_);
  ASSERT_TRUE(without.ok()) << without.status();
  EXPECT_TRUE(without->histograms.empty());
  Graph graph;
  GraphBuilder builder(&graph);
  InputQueue queue = queue_;
  const CloneFunction model_fn = [&](GraphBuilder& clone) {
    return LogisticClassifier(clone, queue);
  };
  const auto model = Deploy(Config({2}), builder, model_fn, &sgd_, /*summarize_gradients=*/true);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->histograms.size(), 2u);
  const HistogramSummary& weights = model->histograms[0];
  EXPECT_EQ(weights.name, "LogisticClassifier/fully_connected/weights/gradient");
  EXPECT_EQ(weights.norm_name, "LogisticClassifier/fully_connected/weights/gradient_norm");
  EXPECT_EQ(weights.value, model->train_op->gradients[0].gradient);
}

TEST_F(ModelDeployTest, AVariableWithoutGradientHasNoSummary) {
  VariableSpec spec;
  spec.name = "a";
  const Output a = builder_.GetVariable(spec);
  EXPECT_TRUE(AddGradientsSummaries({{Output(), a}}).empty());
}

TEST_F(ModelDeployTest, CollectedValuesAreScalarsOrHistograms) {
  const CloneFunction model_fn = [&](GraphBuilder& builder) {
    const std::vector<Output> outputs = LogisticClassifier(builder, queue_);
    builder.AddToCollection(kSummaries, outputs[0]);
    builder.AddToCollection(kSummaries, ops::ReduceMean(builder, outputs[0], {}, false, "mean"));
    return outputs;
  };
  const auto model = Deploy(Config({2}), builder_, model_fn, &sgd_);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(model->histograms.size(), 1u);  // only the first clone has one
  EXPECT_EQ(model->histograms[0].norm_name, "");
  EXPECT_TRUE(absl::StartsWith(model->histograms[0].name, "clone_0/"));
  EXPECT_EQ(model->summaries[0].value.shape().rank(), 0);
  EXPECT_TRUE(absl::EndsWith(model->summaries[0].name, "mean")) << model->summaries[0].name;
}

TEST_F(ModelDeployTest, VariablesThatNoCloneUsesAreLeftOut) {
  VariableSpec spec;
  spec.name = "a";
  const Output a = builder_.GetVariable(spec);
  spec.name = "b";
  const Output b = builder_.GetVariable(spec);
  const Output one = ops::Constant(builder_, 1);
  const auto sums =
      SumClonesGradients(builder_, {{{one, a}, {Output(), b}}, {{Output(), a}, {Output(), b}}});
  ASSERT_EQ(sums.size(), 1u);
  EXPECT_EQ(sums[0].variable, a);
  EXPECT_EQ(sums[0].gradient, one);
}

TEST_F(ModelDeployTest, TheFirstErrorOfTheModelEndsTheDeployment) {
  const auto model = Deploy(Config({2}), builder_, [](GraphBuilder& builder) {
    return std::vector<Output>{ops::Reshape(builder, ops::Constant(builder, 1), {3})};
  });
  EXPECT_EQ(model.status().message(), "clone_0/Reshape (Reshape): cannot reshape: [] and [3]");
}

// Four clones of 8 examples compute the same as one clone of 32.
TEST(EquivalenceTest, ClonesAreOneLargerBatch) {
  std::vector<std::vector<Tensor>> results;
  const Tensor all = RandomTensor(DataType::kFloat32, {32, 6}, 5);
  for (const int num_clones : {1, 4}) {
    Graph graph;
    GraphBuilder builder(&graph);
    InputQueue queue({{"input", {DataType::kFloat32, {6}}}});
    v1::OptimizerConfig sgd;
    const auto model = Deploy(
        Config({num_clones, true}), builder,
        [&queue](GraphBuilder& b) -> std::vector<Output> {
          const Output x = queue.Dequeue(b)[0];
          DenseOptions options;
          options.units = 5;
          options.activation = Activation::kTanh;
          options.weight_decay = 0.01;
          const Output y = Dense(b, x, options);
          AddLoss(b, LossKind::kMeanSquaredError, SigmoidLayer(b, y), ops::Constant(b, 0.3));
          return {y};
        },
        &sgd);
    ASSERT_TRUE(model.ok()) << model.status();
    std::vector<std::pair<Output, Tensor>> feeds;
    const int rows = 32 / num_clones;
    for (int i = 0; i < num_clones; ++i) {
      Tensor part(DataType::kFloat32, {rows, 6});
      std::copy_n(all.span<float>().data() + i * rows * 6, rows * 6,
                  part.mutable_span<float>().data());
      feeds.emplace_back(queue.batches()[i][0], part);
    }
    std::vector<Output> fetches = {model->total_loss};
    for (const auto& pair : model->train_op->gradients) fetches.push_back(pair.gradient);
    auto run = RunGraph(graph, ReferenceKernelBackend(), feeds, InitialValues(graph, 3), fetches);
    ASSERT_TRUE(run.ok()) << run.status();
    results.push_back(*std::move(run));
  }
  ASSERT_EQ(results[0].size(), results[1].size());
  for (size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_LE(RelativeDistance(results[1][i], results[0][i]), 1e-5) << "fetch " << i;
  }
}

}  // namespace
}  // namespace shoal
