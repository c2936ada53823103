#include "worker/replica/graph_program.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "ml/device/simulated_device.h"
#include "ml/graph/graph_runner_testing.h"
#include "ml/graph/ops.h"
#include "ml/kernels/cpu/cpu_kernels.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/model_builder.h"
#include "ml/nn/normalization_layers.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kFeatures = 12;
constexpr int64_t kExamples = 10;

// A network like seed_mlp with few features: one scalar bias per layer, and a squared error over
// all columns of the target.
v1::RunConfig RunOn(const std::string& devices, const std::string& variables = "cpu") {
  v1::RunConfig run;
  run.mutable_model()->set_name("seed_mlp");
  run.mutable_model()->set_weight_decay(0.01);
  run.mutable_deployment()->set_num_ps_tasks(0);
  run.mutable_deployment()->set_devices(devices);
  run.mutable_deployment()->set_variables(variables);
  run.set_replica_batch_size(kExamples);
  ResolveDefaults(TaskCounts(), &run);
  return run;
}

std::unique_ptr<GraphProgram> Make(v1::RunConfig run,
                                   std::vector<KernelBackend> accelerators = {}) {
  GraphProgram::Options options;
  options.accelerators = std::move(accelerators);
  options.run = std::move(run);
  options.fields = {{kInputField, {DataType::kFloat32, {kFeatures}}},
                    {kTargetField, {DataType::kFloat32, {kFeatures}}}};
  options.model = *MakeModel(options.run.model(), options.fields, 10);
  options.backend = CpuKernelBackend();
  options.compute_name = "test";
  auto program = GraphProgram::Create(std::move(options));
  EXPECT_TRUE(program.ok()) << program.status();
  return *std::move(program);
}

struct Computed {
  BatchResult result;
  std::vector<Tensor> gradients;

  std::vector<float*> contributions() {
    std::vector<float*> all;
    for (Tensor& gradient : gradients) all.push_back(gradient.mutable_span<float>().data());
    return all;
  }
};

Computed TrainOn(GraphProgram* program, int64_t examples) {
  Tensor input = RandomTensor(DataType::kFloat32, {examples, kFeatures}, 1, 0, 1);
  Tensor target = RandomTensor(DataType::kFloat32, {examples, kFeatures}, 2, 1, 3);
  LoadedBatch batch;
  batch.num_examples = examples;
  batch.fields = {input.mutable_data(), target.mutable_data()};
  Computed computed;
  std::vector<Tensor> values;
  std::vector<const float*> parameters;
  std::vector<float*> contributions;
  for (size_t v = 0; v < program->variables().size(); ++v) {
    Shape shape;
    for (int64_t dim : program->variables()[v].shape()) shape.AddDim(dim);
    values.push_back(RandomTensor(DataType::kFloat32, shape, 10 + v, -0.3, 0.3));
    computed.gradients.emplace_back(DataType::kFloat32, shape);
  }
  for (size_t v = 0; v < values.size(); ++v) {
    parameters.push_back(values[v].span<float>().data());
    contributions.push_back(computed.gradients[v].mutable_span<float>().data());
  }
  EXPECT_TRUE(program
                  ->Train(
                      {&batch, parameters, contributions}, &computed.result,
                      [](uint32_t, int64_t) {}, [] {})
                  .ok());
  return computed;
}

// Expects that both programs, trained on the same batch, give the same bytes. `what` describes them
// in messages.
void ExpectSameBytes(GraphProgram* a, GraphProgram* b, int64_t examples, const std::string& what) {
  const Computed of_a = TrainOn(a, examples);
  const Computed of_b = TrainOn(b, examples);
  EXPECT_EQ(of_a.result.loss_sum, of_b.result.loss_sum) << what << ", examples " << examples;
  for (size_t v = 0; v < of_a.gradients.size(); ++v) {
    EXPECT_EQ(of_a.gradients[v].span<float>(), of_b.gradients[v].span<float>())
        << what << ", examples " << examples << ", variable " << v;
  }
}

TEST(GraphProgramTest, ProductsOfBfloat16GiveGradientsNearThoseOfFloat32) {
  v1::RunConfig run = RunOn("/cpu:0");
  const auto exact = Make(run);
  run.set_compute_dtype("bfloat16");
  const auto rounded = Make(run);
  EXPECT_EQ(rounded->compute_fingerprint(), "test, products of bfloat16, devices CPU, threads 1");
  const Computed a = TrainOn(exact.get(), kExamples), b = TrainOn(rounded.get(), kExamples);
  EXPECT_NE(a.result.loss_sum, b.result.loss_sum);
  EXPECT_NEAR(a.result.loss_sum, b.result.loss_sum, 0.01 * a.result.loss_sum);
  EXPECT_EQ(a.result.regularization, b.result.regularization);
  for (size_t v = 0; v < a.gradients.size(); ++v) {
    EXPECT_LT(RelativeDistance(b.gradients[v], a.gradients[v]), 0.03)
        << exact->variables()[v].name();
  }
}

TEST(GraphProgramTest, AddingADeviceChangesNothingButRounding) {
  const auto one = Make(RunOn("/cpu:0"));
  // 10 over 3 and 4 does not divide; 7 is what is left at an epoch's end, 2 fewer than devices.
  for (const char* devices :
       {"/cpu:0,/cpu:1", "/cpu:3,/cpu:0,/cpu:7", "/cpu:1,/cpu:2,/cpu:3,/cpu:5"}) {
    const auto several = Make(RunOn(devices));
    for (int64_t examples : {kExamples, int64_t{7}, int64_t{2}}) {
      const Computed a = TrainOn(one.get(), examples);
      const Computed b = TrainOn(several.get(), examples);
      EXPECT_EQ(b.result.examples, static_cast<uint64_t>(examples));
      EXPECT_NEAR(a.result.loss_sum, b.result.loss_sum, 1e-5 * a.result.loss_sum) << devices;
      EXPECT_NEAR(a.result.regularization, b.result.regularization, 1e-6) << devices;
      for (size_t v = 0; v < a.gradients.size(); ++v) {
        EXPECT_LT(RelativeDistance(b.gradients[v], a.gradients[v]), 1e-5)
            << devices << " " << one->variables()[v].name() << " " << examples;
      }
    }
  }
}

TEST(GraphProgramTest, ThePlaceOfTheVariablesDoesNotChangeAByte) {
  const Computed expected = TrainOn(Make(RunOn("/cpu:1,/cpu:2,/cpu:4")).get(), kExamples);
  SimulatedDeviceOptions simulated;
  simulated.num_devices = 3;
  const std::vector<KernelBackend> gpus = {SimulatedBackend(CpuKernelBackend(), simulated)};
  // On CPUs the sums are where they are best, whatever is asked for; with GPUs where it says.
  for (const char* devices :
       {"/cpu:1,/cpu:2,/cpu:4", "/gpu:0,/gpu:1,/gpu:2", "/gpu:2,/cpu:1,/gpu:0"}) {
    for (const char* variables : {"cpu", "first_device", "mirrored"}) {
      const auto program = Make(RunOn(devices, variables), gpus);
      const Computed computed = TrainOn(program.get(), kExamples);
      for (size_t v = 0; v < expected.gradients.size(); ++v) {
        EXPECT_EQ(expected.gradients[v].span<float>(), computed.gradients[v].span<float>())
            << devices << " " << variables << " " << v;
      }
    }
  }
}

// Returns the different devices that PlacementLines names for the sums of gradients.
std::vector<std::string> SummingDevices(const GraphProgram& program) {
  std::vector<std::string> devices;
  for (const std::string& line : program.PlacementLines()) {
    const size_t at = line.find(" summed on /job:worker/task:0/device:");
    if (at == std::string::npos) continue;
    devices.push_back(line.substr(line.find("device:", at) + 7));
  }
  std::sort(devices.begin(), devices.end());
  devices.erase(std::unique(devices.begin(), devices.end()), devices.end());
  return devices;
}

TEST(GraphProgramTest, GradientsAreSummedOnTheCpuOnTheFirstDeviceOrByAll) {
  const auto summed = [](const char* devices, const char* variables, bool between_devices) {
    SimulatedTraffic traffic;
    SimulatedDeviceOptions simulated;
    simulated.num_devices = 3;
    simulated.has_groups = false;
    simulated.traffic = &traffic;
    v1::RunConfig run = RunOn(devices, variables);
    run.mutable_deployment()->set_log_device_placement(true);
    const auto program = Make(run, {SimulatedBackend(CpuKernelBackend(), simulated)});
    TrainOn(program.get(), kExamples);
    EXPECT_EQ(traffic.peer_copies > 0, between_devices) << devices << " " << variables;
    return SummingDevices(*program);
  };
  EXPECT_THAT(summed("/gpu:0,/gpu:2", "cpu", false), ElementsAre("CPU:0"));
  EXPECT_THAT(summed("/gpu:0,/gpu:2", "first_device", true), ElementsAre("GPU:0"));
  EXPECT_THAT(summed("/gpu:0,/gpu:2", "mirrored", true), ElementsAre("GPU:0", "GPU:2"));
  // CPU 7 in place of a GPU that is not there: one more device, not a run on CPUs only.
  EXPECT_THAT(summed("/gpu:0,/gpu:7", "cpu", false), ElementsAre("CPU:0"));
  for (const char* variables : {"cpu", "first_device", "mirrored"}) {
    EXPECT_THAT(summed("/gpu:5,/gpu:7", variables, false), ElementsAre("CPU:5", "CPU:7"));
  }
}

// Values are uploaded once and broadcast, the group sums the gradients, and the sums are downloaded
// once.
TEST(GraphProgramTest, DevicesWithMirroredVariablesAddAndSpreadAsAGroup) {
  const auto train = [](const char* devices, const char* variables, SimulatedTraffic* traffic) {
    SimulatedDeviceOptions simulated;
    simulated.num_devices = 4;
    simulated.traffic = traffic;
    const auto program =
        Make(RunOn(devices, variables), {SimulatedBackend(CpuKernelBackend(), simulated)});
    for (int step = 0; step < 20; ++step) TrainOn(program.get(), kExamples);
    return TrainOn(program.get(), kExamples);
  };
  constexpr int kVariables = 8, kSteps = 21;
  for (const char* devices : {"/gpu:0,/gpu:1", "/gpu:3,/gpu:0,/gpu:2"}) {
    SimulatedTraffic apart, together;
    const Computed expected = train(devices, "cpu", &apart);
    const Computed computed = train(devices, "mirrored", &together);
    EXPECT_EQ(computed.result.loss_sum, expected.result.loss_sum);
    for (size_t v = 0; v < expected.gradients.size(); ++v) {
      EXPECT_EQ(computed.gradients[v].span<float>(), expected.gradients[v].span<float>()) << v;
    }
    EXPECT_EQ(together.group_sums, kVariables * kSteps);
    EXPECT_EQ(together.broadcasts, kVariables * kSteps);
    EXPECT_EQ(together.peer_copies, 0);
    EXPECT_EQ(apart.group_sums + apart.broadcasts, 0);
    EXPECT_LT(together.uploaded_bytes, apart.uploaded_bytes * 6 / 10);
  }
}

TEST(GraphProgramTest, ReplayedStepsGiveTheBytesOfCpusForEveryBatchSize) {
  SimulatedTraffic traffic;
  SimulatedDeviceOptions simulated;
  simulated.num_devices = 2;
  simulated.traffic = &traffic;
  v1::RunConfig run = RunOn("/gpu:0,/gpu:1", "mirrored");
  run.mutable_deployment()->set_cuda_graphs(true);
  const auto on_gpus = Make(run, {SimulatedBackend(CpuKernelBackend(), simulated)});
  const auto on_cpus = Make(RunOn("/cpu:0,/cpu:1"));
  for (int step = 0; step < 4; ++step) {
    for (int64_t examples : {kExamples, int64_t{7}}) {
      ExpectSameBytes(on_cpus.get(), on_gpus.get(), examples, absl::StrCat("step ", step));
    }
  }
  EXPECT_EQ(traffic.replays, 2 * 2 * 3);  // devices, sizes, all steps but the first
}

TEST(GraphProgramTest, DevicesWithMemoryOfTheirOwnGiveTheBytesOfCpus) {
  for (const char* variables : {"cpu", "first_device", "mirrored"}) {
    const auto on_cpus = Make(RunOn("/cpu:0,/cpu:1", variables));
    SimulatedDeviceOptions simulated;
    simulated.num_devices = 3;
    const auto on_gpus =
        Make(RunOn("/gpu:0,/gpu:2", variables), {SimulatedBackend(CpuKernelBackend(), simulated)});
    EXPECT_THAT(on_gpus->missing_devices(), ElementsAre());
    EXPECT_THAT(on_gpus->PlacementLines(), Contains("clone 1 on /job:worker/task:0/device:GPU:2"));
    EXPECT_THAT(on_gpus->compute_fingerprint(), HasSubstr("simulated, devices GPU,GPU"));
    for (int64_t examples : {kExamples, int64_t{7}, int64_t{1}}) {
      ExpectSameBytes(on_cpus.get(), on_gpus.get(), examples, variables);
    }
  }
}

TEST(GraphProgramTest, VariablesAndClonesAreListedWithTheirDevices) {
  const std::string worker = "/job:worker/task:0/device:CPU:";
  EXPECT_THAT(Make(RunOn("/cpu:1,/cpu:4"))->PlacementLines(),
              ElementsAre("variable affine0/w [12,512] on " + worker + "0",
                          "variable affine0/b [] on " + worker + "0",
                          "variable affine1/w [512,128] on " + worker + "0",
                          "variable affine1/b [] on " + worker + "0",
                          "variable affine2/w [128,128] on " + worker + "0",
                          "variable affine2/b [] on " + worker + "0",
                          "variable affine_last/w [128,1] on " + worker + "0",
                          "variable affine_last/b [] on " + worker + "0",
                          "clone 0 on " + worker + "1", "clone 1 on " + worker + "4"));
  EXPECT_THAT(Make(RunOn("/cpu:1,/cpu:4", "first_device"))->PlacementLines(),
              Contains("variable affine0/b [] on " + worker + "1"));
  EXPECT_THAT(Make(RunOn("/cpu:1,/cpu:4", "mirrored"))->PlacementLines(),
              Contains("variable affine0/b [] on " + worker + "1, " + worker + "4"));
}

TEST(GraphProgramTest, TheGradientsOfEveryCloneAreListedOnRequest) {
  v1::RunConfig run = RunOn("/cpu:1,/cpu:4");
  run.mutable_deployment()->set_log_device_placement(true);
  const std::vector<std::string> lines = Make(std::move(run))->PlacementLines();
  for (const char* clone : {"gradient clone_0/gradients", "gradient clone_1/gradients"}) {
    EXPECT_THAT(lines, Contains(testing::AllOf(HasSubstr(clone), HasSubstr(" of affine1/w on "))));
  }
}

TEST(GraphProgramTest, ClonesBeyondTheGpusAreNamedWhereThereIsAGpu) {
  v1::RunConfig run = RunOn("");
  run.mutable_deployment()->set_num_clones(4);
  SimulatedDeviceOptions simulated;
  simulated.num_devices = 2;
  const auto on_gpus = Make(run, {SimulatedBackend(CpuKernelBackend(), simulated)});
  EXPECT_THAT(on_gpus->missing_devices(), ElementsAre("/gpu:2", "/gpu:3"));
  EXPECT_THAT(Make(run)->missing_devices(), ElementsAre());
}

TEST(GraphProgramTest, ADeviceThatIsNotThereIsACpuOrAnError) {
  const auto soft = Make(RunOn("/gpu:0,/gpu:2"));
  EXPECT_THAT(soft->missing_devices(), ElementsAre("/gpu:0", "/gpu:2"));
  EXPECT_THAT(soft->PlacementLines(), Contains("clone 1 on /job:worker/task:0/device:CPU:2"));

  GraphProgram::Options options;
  options.run = RunOn("/gpu:0,/gpu:2");
  options.run.mutable_deployment()->set_allow_soft_placement(false);
  options.fields = {{kInputField, {DataType::kFloat32, {kFeatures}}},
                    {kTargetField, {DataType::kFloat32, {kFeatures}}}};
  options.model = *MakeModel(options.run.model(), options.fields, 10);
  options.backend = CpuKernelBackend();
  const absl::Status status = GraphProgram::Create(std::move(options)).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("Could not satisfy explicit device specification '/device:GPU:0'"));
}

TEST(GraphProgramTest, NothingIsSummarisedUnlessTheRunWantsIt) {
  const auto program = Make(RunOn("/cpu:0"));
  Computed computed = TrainOn(program.get(), kExamples);
  EXPECT_TRUE(program->Summaries(computed.contributions()).empty());
}

TEST(GraphProgramTest, SummariesAreTheLossesAndTheGradientsOfTheLastBatch) {
  v1::RunConfig run = RunOn("/cpu:0,/cpu:1");
  run.mutable_summary()->set_model_every(1);
  const auto program = Make(std::move(run));
  for (const int64_t examples : {kExamples, int64_t{7}}) {
    Computed computed = TrainOn(program.get(), examples);
    const std::vector<float*> contributions = computed.contributions();
    double total = 0;
    size_t gradients = 0;
    for (const BatchSummary& summary : program->Summaries(contributions)) {
      if (summary.scalar == "total_loss") total = summary.values.at(0);
      if (summary.histogram.empty()) continue;
      const size_t v = gradients++;
      EXPECT_EQ(summary.histogram, program->variables()[v].name() + "/gradient");
      EXPECT_EQ(summary.norm, program->variables()[v].name() + "/gradient_norm");
      EXPECT_EQ(summary.values.data(), contributions[v]);
      EXPECT_EQ(summary.values.size(), computed.gradients[v].span<float>().size());
    }
    EXPECT_EQ(gradients, program->variables().size());
    EXPECT_NEAR(
        total,
        computed.result.loss_sum / static_cast<double>(examples) + computed.result.regularization,
        1e-5 * total);
  }
}

TEST(GraphProgramTest, CollectedValuesAreSummarisedOverTheClones) {
  GraphProgram::Options options;
  options.run = RunOn("/cpu:0");
  options.run.mutable_summary()->set_model_every(1);
  options.fields = {{kInputField, {DataType::kFloat32, {kFeatures}}},
                    {kTargetField, {DataType::kFloat32, {kFeatures}}}};
  const ModelFunction model = *MakeModel(options.run.model(), options.fields, 10);
  options.model = [&](GraphBuilder& builder, absl::Span<const Output> batch, bool is_training) {
    const ModelOutputs outputs = model(builder, batch, is_training);
    builder.AddToCollection(kSummaries, outputs.predictions);
    return outputs;
  };
  options.backend = CpuKernelBackend();
  auto program = GraphProgram::Create(options);
  ASSERT_TRUE(program.ok()) << program.status();
  for (const int64_t examples : {kExamples, int64_t{7}}) {
    Computed computed = TrainOn(program->get(), examples);
    bool found = false;
    for (const BatchSummary& summary : (*program)->Summaries(computed.contributions())) {
      if (summary.histogram.empty() || !summary.norm.empty()) continue;
      found = true;
      EXPECT_EQ(summary.values.size(), static_cast<size_t>(examples));
      for (const float value : summary.values) EXPECT_NE(value, 0);
    }
    EXPECT_TRUE(found);
  }
  options.model = [&](GraphBuilder& builder, absl::Span<const Output> batch, bool is_training) {
    const ModelOutputs outputs = model(builder, batch, is_training);
    builder.AddToCollection(kSummaries, ops::Cast(builder, outputs.predictions, DataType::kInt32));
    return outputs;
  };
  EXPECT_THAT(std::string(GraphProgram::Create(options).status().message()),
              HasSubstr("is summarised but not float32; cast it before"));
}

// A program with its own model function, which classifies into three classes.
GraphProgram::Options OwnModel(ModelFunction model) {
  GraphProgram::Options options;
  options.run = RunOn("/cpu:0,/cpu:1");
  options.fields = {{kInputField, {DataType::kFloat32, {kFeatures}}},
                    {kTargetField, {DataType::kInt32, {}}}};
  options.model = std::move(model);
  options.backend = CpuKernelBackend();
  return options;
}

ModelOutputs Classify(GraphBuilder& builder, absl::Span<const Output> batch, double weight_decay) {
  DenseOptions layer;
  layer.units = 3;
  layer.weight_decay = weight_decay;
  layer.scope = "layer";
  ModelOutputs outputs;
  outputs.predictions = Dense(builder, batch[0], layer);
  outputs.loss =
      AddLoss(builder, LossKind::kSparseSoftmaxCrossEntropy, outputs.predictions, batch[1]);
  outputs.correct_count = CorrectCount(builder, outputs.predictions, batch[1]);
  return outputs;
}

// Clones that exchange the moments of a batch norm, forward and backward.
ModelOutputs SynchronizedModel(GraphBuilder& builder, absl::Span<const Output> batch, bool train) {
  BatchNormOptions norm;
  norm.sync_clones = true;
  norm.is_training = train;
  DenseOptions layer;
  layer.units = 9;
  layer.weight_decay = 0.01;
  const Output x = Activate(builder, BatchNorm(builder, Dense(builder, batch[0], layer), norm),
                            Activation::kTanh);
  layer.units = kFeatures;
  ModelOutputs outputs;
  outputs.predictions = Dense(builder, x, layer);
  outputs.loss = AddLoss(builder, LossKind::kMeanSquaredError, outputs.predictions, batch[1]);
  return outputs;
}

TEST(GraphProgramTest, SynchronizedClonesAreSummedWhereOthersAreAndGiveTheBytesOfCpus) {
  const auto make = [](const char* devices, const char* variables) {
    SimulatedDeviceOptions simulated;
    simulated.num_devices = 3;
    GraphProgram::Options options = OwnModel(SynchronizedModel);
    options.run = RunOn(devices, variables);
    options.run.mutable_deployment()->set_log_device_placement(true);
    options.fields[1].example = {DataType::kFloat32, {kFeatures}};
    options.accelerators = {SimulatedBackend(CpuKernelBackend(), simulated)};
    auto program = GraphProgram::Create(std::move(options));
    EXPECT_TRUE(program.ok()) << program.status();
    return *std::move(program);
  };
  const std::map<std::string, std::vector<std::string>> summed = {
      {"cpu", {"CPU:0"}}, {"first_device", {"GPU:0"}}, {"mirrored", {"GPU:0", "GPU:1", "GPU:2"}}};
  for (const auto& [variables, devices] : summed) {
    const auto on_cpus = make("/cpu:0,/cpu:1,/cpu:2", variables.c_str());
    const auto on_gpus = make("/gpu:0,/gpu:1,/gpu:2", variables.c_str());
    EXPECT_EQ(SummingDevices(*on_gpus), devices) << variables;
    for (int64_t examples : {kExamples, int64_t{7}, int64_t{2}}) {
      ExpectSameBytes(on_cpus.get(), on_gpus.get(), examples, variables);
    }
  }
}

BatchResult EvaluateOn(GraphProgram* program, int64_t examples,
                       absl::Span<const uint64_t> versions = {}, RaggedRows* ragged = nullptr) {
  Tensor input = RandomTensor(DataType::kFloat32, {examples, kFeatures}, 1, 0, 1);
  Tensor labels(DataType::kInt32, {examples});
  for (int64_t i = 0; i < examples; ++i) {
    labels.mutable_span<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i % 3);
  }
  LoadedBatch batch;
  batch.num_examples = examples;
  batch.fields = {input.mutable_data(), labels.mutable_data(), ragged};
  std::vector<Tensor> values;
  for (size_t v = 0; v < program->variables().size(); ++v) {
    Shape shape;
    for (int64_t dim : program->variables()[v].shape()) shape.AddDim(dim);
    values.push_back(RandomTensor(DataType::kFloat32, shape, 10 + v, -0.3, 0.3));
  }
  std::vector<const float*> parameters;
  for (const Tensor& value : values) parameters.push_back(value.span<float>().data());
  BatchResult result;
  EXPECT_TRUE(program->Evaluate(batch, parameters, versions, &result).ok());
  return result;
}

TEST(GraphProgramTest, BatchesWithMoreKeysThanBeforeAreComputedAsAnyOthers) {
  GraphProgram::Options options =
      OwnModel([](GraphBuilder& builder, absl::Span<const Output> batch, bool) {
        ModelOutputs outputs = Classify(builder, batch, 0);
        outputs.metrics.push_back({"weights", ops::ReduceSum(builder, batch[4]), {}});
        return outputs;
      });
  options.fields.push_back(RaggedField("item", FieldKind::kWeightedRagged));
  const auto program = GraphProgram::Create(std::move(options));
  ASSERT_TRUE(program.ok()) << program.status();
  for (const int64_t keys : {2, 0, 1, 100, 3}) {  // of each example
    RaggedRows items(/*has_weights=*/true);
    for (int64_t i = 0; i < kExamples; ++i) {
      for (int64_t k = 0; k < keys; ++k) items.AddKey(k, 0.25f);
      items.EndExample();
    }
    const BatchResult result = EvaluateOn(program->get(), kExamples, {}, &items);
    EXPECT_EQ(result.metrics[0].sum, 0.25 * static_cast<double>(keys * kExamples));
  }
}

TEST(GraphProgramTest, BlocksOfAnEvaluationUploadTheirExamplesOnly) {
  SimulatedTraffic traffic;
  SimulatedDeviceOptions simulated;
  simulated.num_devices = 3;
  simulated.traffic = &traffic;
  GraphProgram::Options options = OwnModel([](GraphBuilder& builder, absl::Span<const Output> batch,
                                              bool) { return Classify(builder, batch, 0.01); });
  options.run.mutable_deployment()->set_devices("/gpu:0,/gpu:2");
  options.accelerators = {SimulatedBackend(CpuKernelBackend(), simulated)};
  const auto program = GraphProgram::Create(std::move(options));
  ASSERT_TRUE(program.ok()) << program.status();
  const std::vector<uint64_t> versions((*program)->variables().size(), 1);
  const auto uploaded = [&](absl::Span<const uint64_t> with) {
    const int64_t before = traffic.uploaded_bytes;
    EvaluateOn(program->get(), kExamples, with);
    return traffic.uploaded_bytes - before;
  };
  const int64_t with_values = uploaded(versions), examples_only = uploaded(versions);
  EXPECT_GE(examples_only, kExamples * (kFeatures + 1) * 4);
  EXPECT_LT(examples_only, with_values);
  EXPECT_EQ(uploaded({}), with_values);
}

TEST(GraphProgramTest, EvaluationHasItsOwnResultsWhereOnlyTrainingRegularizes) {
  const auto with_decay = [](double training, double evaluation) {
    auto program = GraphProgram::Create(
        OwnModel([=](GraphBuilder& builder, absl::Span<const Output> batch, bool is_training) {
          return Classify(builder, batch, is_training ? training : evaluation);
        }));
    EXPECT_TRUE(program.ok()) << program.status();
    return EvaluateOn(program->get(), kExamples);
  };
  const BatchResult expected = with_decay(0, 0);
  ASSERT_GT(expected.correct, 0u);
  const BatchResult only_training = with_decay(0.5, 0);
  EXPECT_EQ(only_training.correct, expected.correct);
  EXPECT_EQ(only_training.loss_sum, expected.loss_sum);
  EXPECT_EQ(only_training.regularization, 0);
  const BatchResult only_evaluation = with_decay(0, 0.5);
  EXPECT_EQ(only_evaluation.correct, expected.correct);
  EXPECT_EQ(only_evaluation.loss_sum, expected.loss_sum);
  EXPECT_GT(only_evaluation.regularization, 0);
}

TEST(GraphProgramTest, AVariableThatTrainingDoesNotHaveIsRefused) {
  const auto refused = [](int64_t training_units, int64_t evaluation_units, bool has_extra) {
    const absl::Status status =
        GraphProgram::Create(OwnModel([=](GraphBuilder& builder, absl::Span<const Output> batch,
                                          bool is_training) {
          DenseOptions hidden;
          hidden.units = is_training ? training_units : evaluation_units;
          hidden.scope = "hidden";
          Output x = Dense(builder, batch[0], hidden);
          hidden.scope = "extra";
          if (has_extra && !is_training) x = Dense(builder, x, hidden);
          return Classify(builder, {x, batch[1]}, 0);
        })).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << status;
    return std::string(status.message());
  };
  EXPECT_EQ(refused(4, 4, true),
            "model: variable extra/weights is there only without is_training; make it always");
  // Evaluation would read 12 x 8 numbers where there are 12 x 4.
  EXPECT_EQ(refused(4, 8, false),
            "model: variable hidden/weights is float32[12,4] with is_training, float32[12,8] only "
            "without is_training; make it the same");
}

}  // namespace
}  // namespace shoal
