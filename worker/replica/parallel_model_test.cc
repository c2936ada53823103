#include "worker/replica/parallel_model.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"

#include "base/file_system.h"
#include "ml/device/simulated_device.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "proto/v1/optimizer_config.pb.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::vector<std::string>& NotNeighbours() {
  static const auto& devices = *new std::vector<std::string>{"/cpu:1", "/cpu:4", "/cpu:2"};
  return devices;
}

DenseOptions Layer(const char* scope, int64_t units, Activation activation = Activation::kNone) {
  DenseOptions options;
  options.units = units;
  options.activation = activation;
  options.scope = scope;
  return options;
}

// Two inputs; outputs: a vector and a matrix per example, and a scalar, the mean of the first.
ParallelModelSpec TwoInputs() {
  ParallelModelSpec spec;
  spec.inputs = {{"left", {DataType::kFloat32, {3}}}, {"right", {DataType::kFloat32, {2, 2}}}};
  spec.model = [](GraphBuilder& builder, absl::Span<const Output> inputs, bool /*is_training*/) {
    const Output left = Dense(builder, inputs[0], Layer("left", 4, Activation::kTanh));
    const Output right = Dense(builder, Flatten(builder, inputs[1]), Layer("right", 4));
    const Output sum = builder.Op("Add", {left, right});
    const Output squares = builder.Op("Square", {inputs[1]});
    return std::vector<Output>{Dense(builder, sum, Layer("out", 2)), squares,
                               builder.Op("ReduceMean", {sum})};
  };
  return spec;
}

std::vector<Tensor> Inputs(int64_t examples) {
  return {RandomTensor(DataType::kFloat32, {examples, 3}, 1),
          RandomTensor(DataType::kFloat32, {examples, 2, 2}, 2)};
}

// The loss needs the whole batch: how far the outputs are from the targets, and their mean from 0.
ParallelModelSpec WithLoss() {
  ParallelModelSpec spec = TwoInputs();
  spec.targets = {{"target", {DataType::kFloat32, {2}}}};
  spec.loss = [](GraphBuilder& builder, absl::Span<const Output> outputs,
                 absl::Span<const Output> targets) {
    const Output error = AddLoss(builder, LossKind::kMeanSquaredError, outputs[0], targets[0]);
    const Output mean = builder.Op("Square", {builder.Op("ReduceMean", {outputs[0]})});
    const Output scalar = builder.Op("Square", {outputs[2]});
    return ops::AddN(builder, {error, mean, scalar});
  };
  return spec;
}

v1::OptimizerConfig Adam() {
  v1::OptimizerConfig optimizer;
  optimizer.set_learning_rate(0.05);
  optimizer.mutable_adam();
  return optimizer;
}

std::unique_ptr<ParallelModel> Make(ParallelModelSpec spec, std::vector<std::string> devices) {
  ParallelModelOptions options;
  options.devices = std::move(devices);
  options.backend = CpuKernelBackend();
  const v1::OptimizerConfig adam = Adam();
  auto model = ParallelModel::Create(std::move(spec), std::move(options), &adam);
  EXPECT_TRUE(model.ok()) << model.status();
  return *std::move(model);
}

std::vector<Tensor> Predicted(ParallelModel* model, int64_t examples, int64_t batch_size = 0) {
  auto outputs = model->Predict(Inputs(examples), batch_size);
  EXPECT_TRUE(outputs.ok()) << outputs.status();
  return *std::move(outputs);
}

void ExpectSame(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    ASSERT_EQ(a[i].shape(), b[i].shape()) << i;
    EXPECT_LT(RelativeDistance(a[i], b[i]), 2e-5) << i;
  }
}

TEST(ParallelModelTest, OutputsAreInOrderOnAnyDevicesAndForAnyNumberOfExamples) {
  const auto one = Make(TwoInputs(), {"/cpu:0"});
  const auto several = Make(TwoInputs(), NotNeighbours());
  for (int64_t examples : {9, 7, 3, 2, 1}) {
    const std::vector<Tensor> outputs = Predicted(several.get(), examples);
    ASSERT_EQ(outputs.size(), 3u);
    EXPECT_EQ(outputs[0].shape(), Shape({examples, 2}));
    EXPECT_EQ(outputs[1].shape(), Shape({examples, 2, 2}));
    EXPECT_EQ(outputs[2].shape(), Shape());
    ExpectSame(outputs, Predicted(one.get(), examples));
  }
}

TEST(ParallelModelTest, ItDoesNotMatterHowManyExamplesAreComputedAtATime) {
  const auto several = Make(TwoInputs(), NotNeighbours());
  const std::vector<Tensor> whole = Predicted(several.get(), 11);
  for (int64_t batch_size : {4, 5, 1}) ExpectSame(Predicted(several.get(), 11, batch_size), whole);
}

TEST(ParallelModelTest, ALossOnTheMergedOutputsTrainsAsOnOneDevice) {
  const auto one = Make(WithLoss(), {"/cpu:0"});
  const auto several = Make(WithLoss(), NotNeighbours());
  const Tensor targets = RandomTensor(DataType::kFloat32, {8, 2}, 3);
  float first = 0;
  float last = 0;
  for (int step = 0; step < 10; ++step) {
    const absl::StatusOr<float> loss = one->TrainOnBatch(Inputs(8), {targets});
    const absl::StatusOr<float> same = several->TrainOnBatch(Inputs(8), {targets});
    ASSERT_TRUE(loss.ok()) << loss.status();
    ASSERT_TRUE(same.ok()) << same.status();
    EXPECT_NEAR(*loss, *same, 1e-5 * std::abs(*loss));
    if (step == 0) first = *loss;
    last = *loss;
  }
  EXPECT_LT(last, 0.8 * first);
  for (size_t v = 0; v < one->variables().size(); ++v) {
    for (size_t i = 0; i < one->variables().value(v).size(); ++i) {
      EXPECT_NEAR(one->variables().value(v)[i], several->variables().value(v)[i], 1e-4);
    }
  }
}

TEST(ParallelModelTest, ABatchWithFewerExamplesThanDevicesTrainsToo) {
  const auto one = Make(WithLoss(), {"/cpu:0"});
  const auto several = Make(WithLoss(), NotNeighbours());
  const Tensor targets = RandomTensor(DataType::kFloat32, {2, 2}, 3);
  const absl::StatusOr<float> loss = one->TrainOnBatch(Inputs(2), {targets});
  const absl::StatusOr<float> same = several->TrainOnBatch(Inputs(2), {targets});
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_NEAR(*loss, *same, 1e-5 * std::abs(*loss));
}

TEST(ParallelModelTest, FilesAreThoseOfTheInnerModel) {
  const auto files = NewPosixFileSystem();
  const std::string path = testing::TempDir() + "/parallel_model.safetensors";
  const auto trained = Make(WithLoss(), NotNeighbours());
  const Tensor targets = RandomTensor(DataType::kFloat32, {8, 2}, 3);
  ASSERT_TRUE(trained->TrainOnBatch(Inputs(8), {targets}).ok());
  ASSERT_TRUE(trained->Save(*files, path).ok());

  const auto one = Make(TwoInputs(), {"/cpu:0"});
  ASSERT_TRUE(one->Load(*files, path).ok());
  ExpectSame(Predicted(one.get(), 5), Predicted(trained.get(), 5));

  ParallelModelSpec other = TwoInputs();
  other.model = [](GraphBuilder& builder, absl::Span<const Output> inputs, bool) {
    return std::vector<Output>{Dense(builder, inputs[0], Layer("left", 5))};
  };
  const absl::Status refused = Make(std::move(other), {"/cpu:0"})->Load(*files, path);
  EXPECT_EQ(refused.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("left/weights [3,5], the file [3,4]"));
  EXPECT_EQ(one->Load(*files, path + ".none").code(), absl::StatusCode::kNotFound);
}

TEST(ParallelModelTest, TheSummaryIsThatOfTheInnerModel) {
  const std::string one = Make(TwoInputs(), {"/cpu:0"})->Summary();
  EXPECT_EQ(Make(TwoInputs(), NotNeighbours())->Summary(), one);
  EXPECT_THAT(one, HasSubstr("left/weights"));
  EXPECT_THAT(one, HasSubstr("parameters: 46, of which 46 are trained"));
  EXPECT_THAT(one, Not(HasSubstr("clone")));
}

TEST(ParallelModelTest, MisfitsAreNamed) {
  const auto model = Make(TwoInputs(), NotNeighbours());
  const auto message = [&](const std::vector<Tensor>& inputs) {
    return std::string(model->Predict(inputs).status().message());
  };
  EXPECT_THAT(message({Inputs(4)[0]}), HasSubstr("there are 1 tensors, but the model takes 2"));
  EXPECT_THAT(message({Inputs(4)[0], Inputs(5)[1]}), HasSubstr("right is"));
  EXPECT_THAT(message({Inputs(4)[1], Inputs(4)[1]}), HasSubstr("left is"));
  EXPECT_EQ(model->TrainOnBatch(Inputs(4), {}).status().code(),
            absl::StatusCode::kFailedPrecondition);
}

TEST(ParallelModelTest, AVariableOfAnotherShapeInPredictionIsRefused) {
  ParallelModelSpec spec = WithLoss();
  const ParallelModelSpec::Model model = spec.model;
  spec.model = [model](GraphBuilder& builder, absl::Span<const Output> inputs, bool is_training) {
    Dense(builder, inputs[0], Layer("unused", is_training ? 4 : 5000));
    return model(builder, inputs, is_training);
  };
  ParallelModelOptions options;
  options.backend = CpuKernelBackend();
  const v1::OptimizerConfig adam = Adam();
  const absl::Status status = ParallelModel::Create(spec, options, &adam).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("model: variable unused/weights is [3,4] and [3,5000]"));
}

TEST(ParallelModelTest, AnOutputThatDoesNotFollowTheBatchIsRefused) {
  ParallelModelSpec spec;
  spec.inputs = {{"left", {DataType::kFloat32, {3}}}};
  spec.model = [](GraphBuilder& builder, absl::Span<const Output> inputs, bool) {
    VariableSpec fixed;
    fixed.name = "fixed";
    fixed.shape = Shape({20});
    return std::vector<Output>{Dense(builder, inputs[0], Layer("left", 2)),
                               builder.Op("Square", {builder.GetVariable(fixed)})};
  };
  const auto refused = [&](const std::vector<std::string>& devices, int64_t examples,
                           int64_t batch_size) {
    const absl::Status status =
        Make(spec, devices)->Predict({Inputs(examples)[0]}, batch_size).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    EXPECT_THAT(std::string(status.message()),
                HasSubstr("model: output 1 does not have as many rows for each example"));
  };
  refused({"/cpu:0", "/cpu:1"}, 9, 0);  // 5 and 4 examples: 4 and 5 rows for each
  refused({"/cpu:0"}, 9, 5);            // the same, one after the other
  refused({"/cpu:0"}, 7, 0);            // no whole number of rows
}

TEST(ParallelModelTest, ADeviceThatIsNotThereIsACpuOrAnError) {
  const auto one = Make(TwoInputs(), {"/cpu:0"});
  const auto soft = Make(TwoInputs(), {"/gpu:0", "/gpu:2"});
  ExpectSame(Predicted(soft.get(), 5), Predicted(one.get(), 5));

  ParallelModelOptions options;
  options.devices = {"/cpu:0", "/gpu:7"};
  options.backend = CpuKernelBackend();
  options.allow_soft_placement = false;
  const auto hard = ParallelModel::Create(TwoInputs(), options);
  EXPECT_EQ(hard.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(hard.status().message()), HasSubstr("/device:GPU:7"));
  options.devices = {"/cpu:0", "/cpu:0"};
  EXPECT_THAT(std::string(ParallelModel::Create(TwoInputs(), options).status().message()),
              HasSubstr("named twice"));
}

TEST(ParallelModelTest, WithoutABackendItUsesThoseOfTheBuild) {
  ParallelModelOptions options;
  options.devices = {"/cpu:0", "/cpu:1"};
  const auto model = ParallelModel::Create(TwoInputs(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto one = Make(TwoInputs(), {"/cpu:0"});
  ExpectSame(Predicted(model->get(), 5), Predicted(one.get(), 5));
}

// A model on devices of which some are simulated GPUs.
ParallelModelOptions OnDevices(std::vector<std::string> devices, int num_gpus,
                               SimulatedTraffic* traffic) {
  SimulatedDeviceOptions simulated;
  simulated.num_devices = num_gpus;
  simulated.traffic = traffic;
  ParallelModelOptions options;
  options.devices = std::move(devices);
  options.backend = CpuKernelBackend();
  options.accelerators = {SimulatedBackend(CpuKernelBackend(), simulated)};
  return options;
}

TEST(ParallelModelTest, PredictionsUploadTheValuesOnceAfterEveryUpdate) {
  SimulatedTraffic traffic;
  const ParallelModelOptions options = OnDevices({"/gpu:0", "/gpu:1"}, /*num_gpus=*/2, &traffic);
  const v1::OptimizerConfig adam = Adam();
  const auto model = ParallelModel::Create(WithLoss(), options, &adam);
  ASSERT_TRUE(model.ok()) << model.status();
  const auto one = Make(WithLoss(), {"/cpu:0"});
  const Tensor targets = RandomTensor(DataType::kFloat32, {8, 2}, 3);
  const auto uploaded = [&] {
    const int64_t before = traffic.uploaded_bytes;
    ExpectSame(Predicted(model->get(), 8), Predicted(one.get(), 8));
    return traffic.uploaded_bytes - before;
  };
  const int64_t first = uploaded(), second = uploaded();
  EXPECT_LT(second, first);
  ASSERT_TRUE((*model)->TrainOnBatch(Inputs(8), {targets}).ok());
  ASSERT_TRUE(one->TrainOnBatch(Inputs(8), {targets}).ok());
  EXPECT_EQ(uploaded(), first);
  EXPECT_EQ(uploaded(), second);
}

TEST(ParallelModelTest, OnlyDevicesThatAreNotThereAreMissing) {
  SimulatedTraffic traffic;
  const ParallelModelOptions options =
      OnDevices({"/gpu:0", "/gpu:2", "/gpu:7", "/cpu:1"}, /*num_gpus=*/3, &traffic);
  auto model = ParallelModel::Create(TwoInputs(), options);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_THAT((*model)->missing_devices(), ElementsAre("/gpu:7"));
  const auto one = Make(TwoInputs(), {"/cpu:0"});
  EXPECT_THAT(one->missing_devices(), ElementsAre());
  ExpectSame(Predicted(model->get(), 9), Predicted(one.get(), 9));
  EXPECT_GT(traffic.kernels, 0);
}

}  // namespace
}  // namespace shoal
