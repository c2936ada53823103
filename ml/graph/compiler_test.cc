#include "ml/graph/compiler.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/graph/gradients.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/zoo.h"

namespace shoal {
namespace {

using Feeds = std::vector<std::pair<Output, Tensor>>;

// A classifier with two hidden layers on batches of 6, its loss and all gradients.
class CompilerTest : public testing::Test {
 protected:
  CompilerTest() {
    x_ = builder_.Placeholder("x", DataType::kFloat32, Shape({kUnknownDim, 5}));
    labels_ = builder_.Placeholder("labels", DataType::kInt32, Shape({kUnknownDim}));
    DenseOptions hidden;
    hidden.units = 7;
    hidden.activation = Activation::kRelu;
    hidden.weight_decay = 0.1;
    hidden.bias_initializer = ConstantInitializer(0.1);
    Output net = Dense(builder_, x_, hidden);
    hidden.scalar_bias = true;
    hidden.activation = Activation::kTanh;
    net = Dense(builder_, net, hidden);
    DenseOptions last;
    last.units = 3;
    logits_ = Dense(builder_, net, last);
    Output loss = AddLoss(builder_, LossKind::kSparseSoftmaxCrossEntropy, logits_, labels_);
    std::vector<Output> losses = graph_.Collection(kRegularizationLosses);
    losses.push_back(loss);
    fetches_ = {ops::AddN(builder_, losses)};
    const std::vector<Output> variables = graph_.Collection(kTrainableVariables);
    const auto gradients = BuildGradients(builder_, fetches_[0], variables);
    EXPECT_TRUE(gradients.ok()) << gradients.status();
    fetches_.insert(fetches_.end(), gradients->begin(), gradients->end());
    feeds_ = {{x_, RandomTensor(DataType::kFloat32, {6, 5}, 3)},
              {labels_, Tensor::Of<int32_t>({6}, {0, 1, 2, 2, 1, 0})}};
    variables_ = InitialValues(graph_, 17);
  }

  std::unique_ptr<Executable> CompileOrDie(const CompileRequest& request) {
    absl::StatusOr<std::unique_ptr<Executable>> executable = Compile(request);
    EXPECT_TRUE(executable.ok()) << executable.status();
    return *std::move(executable);
  }

  void ExpectClose(const std::vector<Tensor>& a, const std::vector<Tensor>& b, double tolerance) {
    ASSERT_EQ(a.size(), b.size());
    for (size_t i = 0; i < a.size(); ++i) {
      EXPECT_LE(RelativeDistance(a[i], b[i]), tolerance) << "fetch " << i;
    }
  }

  KernelBackend backend_ = CpuKernelBackend();
  Graph graph_;
  GraphBuilder builder_{&graph_};
  Output x_, labels_, logits_;
  std::vector<Output> fetches_;
  Feeds feeds_;
  std::vector<Tensor> variables_;
};

TEST_F(CompilerTest, FusedAndUnfusedAgree) {
  CompileRequest request = MakeRequest(graph_, backend_, feeds_, fetches_);
  const auto fused = CompileOrDie(request);
  request.fuse = false;
  const auto unfused = CompileOrDie(request);
  EXPECT_NE(fused->ToString().find("= DenseGrad("), std::string::npos);
  EXPECT_EQ(fused->ToString().find("ReluGrad"), std::string::npos);
  EXPECT_EQ(fused->ToString().find("MatMul("), std::string::npos) << fused->ToString();
  EXPECT_NE(fused->ToString().find("input_relu=true"), std::string::npos);
  EXPECT_NE(fused->ToString().find("has_input_bias=true"), std::string::npos);
  EXPECT_EQ(unfused->ToString().find("Dense"), std::string::npos);
  ExpectClose(RunOnce(fused.get(), feeds_, variables_), RunOnce(unfused.get(), feeds_, variables_),
              1e-5);
}

TEST(CompilerPartsTest, AConvolutionsGradientWithThatOfItsNormChangesRoundingOnly) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", DataType::kFloat32, Shape({kUnknownDim, 3, 96, 96}));
  const Output labels = builder.Placeholder("labels", DataType::kInt32, Shape({kUnknownDim}));
  const Output logits = zoo::Build(builder, "mobilenet_v2", x, {});
  std::vector<Output> fetches = {
      AddLoss(builder, LossKind::kSparseSoftmaxCrossEntropy, logits, labels)};
  const auto gradients = BuildGradients(builder, fetches[0], graph.Collection(kTrainableVariables));
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  fetches.insert(fetches.end(), gradients->begin(), gradients->end());
  const Feeds feeds = {{x, RandomTensor(DataType::kFloat32, {4, 3, 96, 96}, 3)},
                       {labels, Tensor::Of<int32_t>({4}, {5, 71, 0, 999})}};
  const std::vector<Tensor> variables = InitialValues(graph, 17);
  KernelBackend backend = CpuKernelBackend();
  const auto fused = Compile(MakeRequest(graph, backend, feeds, fetches));
  ASSERT_EQ(backend.fused_ops.back(), "ConvBatchNormGrad");
  backend.fused_ops.pop_back();
  const auto apart = Compile(MakeRequest(graph, backend, feeds, fetches));
  ASSERT_TRUE(fused.ok() && apart.ok()) << fused.status() << apart.status();
  EXPECT_NE((*fused)->ToString().find("= ConvBatchNormGrad("), std::string::npos);
  EXPECT_EQ((*apart)->ToString().find("= ConvBatchNormGrad("), std::string::npos);
  const std::vector<Tensor> a = RunOnce(fused->get(), feeds, variables);
  const std::vector<Tensor> b = RunOnce(apart->get(), feeds, variables);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(RelativeDistance(a[i], b[i]), 1e-4) << i;
}

TEST_F(CompilerTest, TwoRunsGiveTheSameBytes) {
  const auto executable = CompileOrDie(MakeRequest(graph_, backend_, feeds_, fetches_));
  const std::vector<Tensor> first = RunOnce(executable.get(), feeds_, variables_);
  const std::vector<Tensor> second = RunOnce(executable.get(), feeds_, variables_);
  for (size_t i = 0; i < first.size(); ++i)
    EXPECT_EQ(first[i].span<float>(), second[i].span<float>());
}

// The parts in which the CPU's DenseGrad computes its output: chunks of rows with 65536 elements,
// and the remaining rows.
TEST(CompilerPartsTest, ALargeGradientIsReportedInPartsThatAreFinal) {
  Graph graph;
  GraphBuilder builder(&graph);
  const Output x = builder.Placeholder("x", DataType::kFloat32, Shape({kUnknownDim, 600}));
  const Output target = builder.Placeholder("t", DataType::kFloat32, Shape({kUnknownDim, 600}));
  const Output loss =
      AddLoss(builder, LossKind::kMeanSquaredError, zoo::Build(builder, "seed_mlp", x, {}), target);
  const auto gradients = BuildGradients(builder, loss, graph.Collection(kTrainableVariables));
  ASSERT_TRUE(gradients.ok()) << gradients.status();
  const Feeds feeds = {{x, RandomTensor(DataType::kFloat32, {40, 600}, 1)},
                       {target, RandomTensor(DataType::kFloat32, {40, 600}, 2)}};
  const std::vector<Tensor> variables = InitialValues(graph, 1);
  const KernelBackend backend = CpuKernelBackend();
  const auto executable = Compile(MakeRequest(graph, backend, feeds, *gradients));
  ASSERT_TRUE(executable.ok()) << executable.status();
  std::vector<const void*> inputs = {feeds[0].second.data(), feeds[1].second.data()};
  std::vector<const void*> values;
  for (const Tensor& variable : variables) values.push_back(variable.data());
  std::vector<Tensor> results;
  std::vector<void*> outputs;
  for (const TensorSpec& spec : (*executable)->output_specs()) results.emplace_back(spec);
  for (Tensor& result : results) outputs.push_back(result.mutable_data());
  std::vector<int64_t> parts;
  std::vector<std::vector<float>> seen;
  (*executable)->Run({inputs, values, outputs, {}}, [&](int output, int64_t num_elements) {
    if (output != 0) return;
    parts.push_back(num_elements);
    const auto* data = results[0].span<float>().data();
    if (num_elements != Executable::kAll) seen.emplace_back(data, data + num_elements);
  });
  EXPECT_THAT(parts,
              testing::ElementsAre(128 * 512, 256 * 512, 384 * 512, 512 * 512, Executable::kAll));
  const auto all = results[0].span<float>();
  for (const std::vector<float>& part : seen) {
    EXPECT_TRUE(std::equal(part.begin(), part.end(), all.begin())) << part.size();
  }
}

TEST_F(CompilerTest, EveryOutputIsReportedOnceAndLateLayersFirst) {
  const auto executable = CompileOrDie(MakeRequest(graph_, backend_, feeds_, fetches_));
  std::vector<const void*> inputs = {feeds_[0].second.data(), feeds_[1].second.data()};
  std::vector<const void*> values;
  for (const Tensor& variable : variables_) values.push_back(variable.data());
  std::vector<Tensor> results;
  std::vector<void*> outputs;
  for (const TensorSpec& spec : executable->output_specs()) results.emplace_back(spec);
  for (Tensor& result : results) outputs.push_back(result.mutable_data());
  std::vector<int> order;
  executable->Run({inputs, values, outputs, {}},
                  [&](int output, int64_t) { order.push_back(output); });
  ASSERT_EQ(order.size(), fetches_.size());
  // Outputs 1 and 2 are the first layer's weights and bias, 5 and 6 the last one's.
  const auto place = [&](int output) {
    return std::find(order.begin(), order.end(), output) - order.begin();
  };
  EXPECT_LT(place(5), place(3));
  EXPECT_LT(place(3), place(1));
  std::sort(order.begin(), order.end());
  for (size_t i = 0; i < order.size(); ++i) EXPECT_EQ(order[i], static_cast<int>(i));
}

TEST_F(CompilerTest, FeedsVariablesConstantsAndDoublesCanBeFetched) {
  const Output constant = ops::Constant(builder_, 2.5, DataType::kFloat32, {3});
  const Output weights = graph_.Collection(kTrainableVariables)[0];
  const Output reshaped = ops::Reshape(builder_, weights, {-1});
  const std::vector<Output> fetches = {x_, weights, constant, logits_, logits_, reshaped};
  const auto results = RunGraph(graph_, backend_, {feeds_[0]}, variables_, fetches);
  ASSERT_TRUE(results.ok()) << results.status();
  EXPECT_EQ((*results)[0].span<float>(), feeds_[0].second.span<float>());
  EXPECT_EQ((*results)[1].span<float>(), variables_[0].span<float>());
  EXPECT_EQ((*results)[2].span<float>()[2], 2.5f);
  EXPECT_EQ((*results)[3].span<float>(), (*results)[4].span<float>());
  EXPECT_EQ((*results)[5].shape(), Shape({35}));
  EXPECT_EQ((*results)[5].span<float>()[34], variables_[0].span<float>()[34]);
}

TEST_F(CompilerTest, MissingAndMisshapenFeedsAreNamed) {
  CompileRequest request = MakeRequest(graph_, backend_, {feeds_[0]}, fetches_);
  EXPECT_EQ(Compile(request).status().message(),
            "labels is needed, but not fed; add it to the feeds");
  request = MakeRequest(graph_, backend_, feeds_, fetches_);
  request.feeds[0].shape = Shape({6, 4});
  EXPECT_EQ(Compile(request).status().message(), "x takes [?,5], is fed [6,4]");
  request.feeds[0].shape = Shape({6, 5});
  request.feeds[1].shape = Shape({5});
  EXPECT_FALSE(Compile(request).ok());
}

TEST_F(CompilerTest, NodesThatNoFetchNeedsAreLeftOut) {
  const auto executable = CompileOrDie(MakeRequest(graph_, backend_, {feeds_[0]}, {logits_}));
  EXPECT_EQ(executable->ToString().find("Grad"), std::string::npos);
  EXPECT_EQ(executable->ToString().find("CrossEntropy"), std::string::npos);
}

TEST_F(CompilerTest, AMissingKernelIsNamedWithItsNode) {
  backend_.create_kernel = [](const KernelRequest&) -> absl::StatusOr<std::unique_ptr<Kernel>> {
    return absl::NotFoundError("no kernel at all");
  };
  const absl::Status status =
      Compile(MakeRequest(graph_, backend_, {feeds_[0]}, {logits_})).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(status.message(), "fully_connected/Relu (Dense): no kernel at all");
}

TEST_F(CompilerTest, SharingMemoryTakesLessThanTheSum) {
  Output net = x_;
  for (int i = 0; i < 20; ++i) net = builder_.Op("Square", {builder_.Op("Tanh", {net})});
  const auto executable = CompileOrDie(MakeRequest(graph_, backend_, {feeds_[0]}, {net}));
  EXPECT_LE(executable->arena_bytes(), 2 * 128u + 64);
}

// The same model on two clones, the second on another device, their losses added.
class TwoDevicesTest : public testing::Test {
 protected:
  void BuildClone(int clone, const std::string& device) {
    const auto scope = builder_.WithNameScope(absl::StrCat("clone_", clone));
    const auto on = builder_.WithDevice(device);
    const auto in_clone = builder_.WithClone(clone);
    const auto reuse = builder_.ReenterVariableScope(clone == 0 ? Reuse::kCreate : Reuse::kReuse);
    const Output x = builder_.Placeholder("x", DataType::kFloat32, Shape({kUnknownDim, 4}));
    DenseOptions options;
    options.units = 8;
    options.activation = Activation::kRelu;
    const Output hidden = Dense(builder_, x, options);
    options.units = 1;
    options.activation = Activation::kNone;
    const Output y = Dense(builder_, hidden, options);
    const Output loss = builder_.Op("ReduceMean", {ops::Square(builder_, y)});
    const Output scaled = builder_.Op(
        "Scale", {loss}, {{"factor", 0.5}, {"clone_index", static_cast<int64_t>(clone)}});
    losses_.push_back(scaled);
    inputs_.push_back(x);
    const std::vector<Output> variables = graph_.Collection(kTrainableVariables);
    gradients_.push_back(*BuildGradients(builder_, scaled, variables));
  }

  std::vector<Output> Sums() {
    std::vector<Output> sums = {ops::AddN(builder_, losses_)};
    for (size_t v = 0; v < gradients_[0].size(); ++v) {
      sums.push_back(ops::AddN(builder_, {gradients_[0][v], gradients_[1][v]}));
    }
    return sums;
  }

  KernelBackend backend_ = CpuKernelBackend();
  Graph graph_;
  GraphBuilder builder_{&graph_};
  std::vector<Output> losses_, inputs_;
  std::vector<std::vector<Output>> gradients_;
};

TEST_F(TwoDevicesTest, TwoThreadsGiveTheBytesOfOne) {
  BuildClone(0, "/cpu:0");
  BuildClone(1, "/cpu:1");
  const std::vector<Output> fetches = Sums();
  const Feeds feeds = {{inputs_[0], RandomTensor(DataType::kFloat32, {16, 4}, 1)},
                       {inputs_[1], RandomTensor(DataType::kFloat32, {16, 4}, 2)}};
  const std::vector<Tensor> variables = InitialValues(graph_, 1);
  const auto one = Compile(MakeRequest(graph_, backend_, feeds, fetches, 1));
  const auto two = Compile(MakeRequest(graph_, backend_, feeds, fetches, 2));
  ASSERT_TRUE(one.ok() && two.ok()) << one.status() << two.status();
  EXPECT_NE((*two)->ToString().find("CPU:1 clone_1/"), std::string::npos);
  const std::vector<Tensor> expected = RunOnce(one->get(), feeds, variables);
  for (int run = 0; run < 200; ++run) {
    const std::vector<Tensor> got = RunOnce(two->get(), feeds, variables);
    for (size_t i = 0; i < got.size(); ++i) {
      ASSERT_EQ(got[i].span<float>(), expected[i].span<float>()) << "run " << run << " fetch " << i;
    }
  }
}

TEST_F(TwoDevicesTest, UnevenClonesWeighTheirExamples) {
  BuildClone(0, "/cpu:0");
  BuildClone(1, "/cpu:1");
  const std::vector<Output> fetches = Sums();
  const Tensor all = RandomTensor(DataType::kFloat32, {4, 4}, 1);
  Tensor first(DataType::kFloat32, {3, 4}), second(DataType::kFloat32, {1, 4});
  std::copy_n(all.span<float>().data(), 12, first.mutable_span<float>().data());
  std::copy_n(all.span<float>().data() + 12, 4, second.mutable_span<float>().data());
  const std::vector<Tensor> variables = InitialValues(graph_, 1);

  const Feeds feeds = {{inputs_[0], first}, {inputs_[1], second}};
  CompileRequest request = MakeRequest(graph_, backend_, feeds, fetches, 2);
  request.clone_examples = {3, 1};
  const auto uneven = Compile(request);
  const Feeds whole = {{inputs_[0], all}};
  request = MakeRequest(graph_, backend_, whole, fetches, 2);
  request.clone_examples = {4, 0};
  const auto alone = Compile(request);
  ASSERT_TRUE(uneven.ok() && alone.ok()) << uneven.status() << alone.status();
  const std::vector<Tensor> a = RunOnce(uneven->get(), feeds, variables);
  const std::vector<Tensor> b = RunOnce(alone->get(), whole, variables);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_LE(RelativeDistance(a[i], b[i]), 1e-5);
}

}  // namespace
}  // namespace shoal
