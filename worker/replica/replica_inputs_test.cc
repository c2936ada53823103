#include "worker/replica/replica_inputs.h"

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/tensor/tensor.h"
#include "runtime/config/run_config.h"
#include "worker/replica/compute_backends.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

v1::RunConfig Softmax() {
  v1::RunConfig run;
  run.mutable_model()->set_name("softmax_regression");
  run.mutable_data()->set_format(v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION);
  run.mutable_data()->set_features(8);
  run.mutable_data()->set_train_examples(100);
  run.mutable_data()->set_test_examples(20);
  ResolveDefaults(TaskCounts(), &run);
  return run;
}

absl::Status Load(const v1::RunConfig& run) {
  return LoadReplicaInputs(run, 0, ModelFromRunFile()).status();
}

TEST(ReplicaInputsTest, DeclareDataAndVariables) {
  const absl::StatusOr<ReplicaInputs> inputs = LoadReplicaInputs(Softmax(), 0, ModelFromRunFile());
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_EQ(inputs->declaration.train_examples(), 100u);
  EXPECT_EQ(inputs->declaration.test_examples(), 20u);
  EXPECT_EQ(inputs->declaration.variables_size(), 2);
}

TEST(ReplicaInputsTest, LabelsThatAreNotClassesAreExplained) {
  v1::RunConfig run = Softmax();
  run.mutable_data()->set_format(v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION);
  const absl::Status status = Load(run);
  EXPECT_THAT(status.message(), HasSubstr("data: the labels are float32 numbers, but the loss "
                                          "sparse_softmax_cross_entropy needs classes; save them"));
}

TEST(ReplicaInputsTest, WithoutATestSplitThereIsNothingToEvaluate) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  v1::RunConfig run = Softmax();
  run.mutable_data()->Clear();
  run.mutable_data()->set_directory(::testing::TempDir());
  run.set_batch_size(2);
  ASSERT_TRUE(WriteAtomically(*files, ::testing::TempDir() + "/train.csv", "a,b\n1,0\n2,1\n").ok());
  const absl::StatusOr<ReplicaInputs> inputs = LoadReplicaInputs(run, 0, ModelFromRunFile());
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_EQ(inputs->test, nullptr);
  EXPECT_EQ(inputs->declaration.train_examples(), 2u);
  EXPECT_EQ(inputs->declaration.test_examples(), 0u);
  EXPECT_EQ(inputs->declaration.evaluation_blocks(), 0u);
}

TEST(ReplicaInputsTest, OutputsThatBelongToNoClassAreNoticed) {
  v1::RunConfig run = Softmax();
  run.mutable_model()->clear_name();
  run.mutable_model()->add_layer()->mutable_dense()->set_units(12);
  const absl::StatusOr<ReplicaInputs> inputs = LoadReplicaInputs(run, 0, ModelFromRunFile());
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_THAT(inputs->notices,
              ElementsAre(HasSubstr("model.layer[0] (dense): has 12 outputs, but there are 10")));
  run.mutable_model()->mutable_layer(0)->mutable_dense()->set_units(10);
  EXPECT_THAT(LoadReplicaInputs(run, 0, ModelFromRunFile())->notices, ElementsAre());
}

TEST(ReplicaInputsTest, AnAssumedNumberOfClassesAndASingleClassAreNoted) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const std::string root = ::testing::TempDir() + "/classes_of_table";
  ASSERT_TRUE(files->MakeDirectory(root).ok());
  const auto write = [&](const std::string& text) {
    ASSERT_TRUE(WriteAtomically(*files, root + "/train.csv", text).ok());
  };
  v1::RunConfig run = Softmax();
  run.mutable_data()->Clear();
  run.mutable_data()->set_directory(root);
  run.set_batch_size(2);
  run.mutable_model()->clear_name();
  run.mutable_model()->add_layer()->mutable_dense()->set_units(2);
  write("a,b\n1,0\n2,1\n");
  EXPECT_THAT(std::string(Load(run).message()),
              HasSubstr("has 2 outputs, but there are 10 classes; give it 10 units, or say with "
                        "data.classes how many classes there are (it is unset and the labels are "
                        "numbers, so 10 are assumed)"));
  run.mutable_data()->set_classes(2);
  EXPECT_TRUE(Load(run).ok()) << Load(run);

  write("a,b\n1,cat\n2,cat\n");
  EXPECT_THAT(LoadReplicaInputs(run, 0, ModelFromRunFile())->notices,
              ElementsAre(HasSubstr("data: all examples are of one class, cat, so")));
}

TEST(ReplicaInputsTest, GpusAreDescribedAsFarAsTheRunMayUseThem) {
  v1::RunConfig run = Softmax();
  EXPECT_THAT(DescribeGpusFor(run.deployment()), HasSubstr(DescribeGpus()));
  EXPECT_THAT(DescribeGpus(), ::testing::StartsWith("GPUs: "));
  run.mutable_deployment()->set_clone_on_cpu(true);
  EXPECT_EQ(DescribeGpusFor(run.deployment()), "GPUs: not used; clone_on_cpu is set");
  run.mutable_deployment()->set_clone_on_cpu(false);
  run.mutable_deployment()->set_devices("/cpu:3");
  EXPECT_EQ(DescribeGpusFor(run.deployment()), "GPUs: not used; devices are /cpu:3");
}

TEST(ReplicaInputsTest, FrozenParametersAreDeclaredAsSuch) {
  v1::RunConfig run = Softmax();
  run.add_trainable(".*/weights");
  const absl::StatusOr<ReplicaInputs> inputs = LoadReplicaInputs(run, 0, ModelFromRunFile());
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  int trained = 0;
  for (const v1::VariableSpec& variable : inputs->declaration.variables()) {
    EXPECT_TRUE(variable.trainable());  // A parameter of the model all the same.
    const bool is_trained = variable.update() == v1::UPDATE_KIND_OPTIMIZER;
    EXPECT_EQ(is_trained, absl::EndsWith(variable.name(), "/weights")) << variable.name();
    if (!is_trained) {
      EXPECT_EQ(variable.update(), v1::UPDATE_KIND_NONE);
    }
    trained += is_trained;
  }
  EXPECT_EQ(trained, 1);
  run.add_trainable("nothing");
  EXPECT_THAT(std::string(Load(run).message()),
              HasSubstr("trainable: \"nothing\" matches the whole name of none of the variables"));
}

TEST(ReplicaInputsTest, AGroupOfTheOptimizerFreezesParametersToo) {
  v1::RunConfig run = Softmax();
  v1::OptimizerGroup* group = run.mutable_optimizer()->add_group();
  group->set_variables(".*/biases");
  group->set_frozen(true);
  const absl::StatusOr<ReplicaInputs> inputs = LoadReplicaInputs(run, 0, ModelFromRunFile());
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  for (const v1::VariableSpec& variable : inputs->declaration.variables()) {
    EXPECT_EQ(variable.update(), absl::EndsWith(variable.name(), "/biases")
                                     ? v1::UPDATE_KIND_NONE
                                     : v1::UPDATE_KIND_OPTIMIZER)
        << variable.name();
  }
  group->set_variables(".*");
  EXPECT_THAT(std::string(Load(run).message()), HasSubstr("nothing to train"));
}

TEST(ReplicaInputsTest, ABatchIsNotLargerThanTheData) {
  v1::RunConfig run = Softmax();
  run.mutable_deployment()->set_num_clones(2);
  run.set_batch_size(51);
  EXPECT_EQ(Load(run).message(),
            "batch_size: 51 x 2 clones is more than the 100 training examples; give "
            "--batch_size=50 or less");
  run.set_batch_size(50);
  EXPECT_TRUE(Load(run).ok()) << Load(run);
}

TEST(ReplicaInputsTest, ADeviceThatIsNotThereIsNamed) {
  v1::RunConfig run = Softmax();
  run.mutable_deployment()->set_devices("/gpu:0");
  const absl::StatusOr<ReplicaInputs> soft = LoadReplicaInputs(run, 0, ModelFromRunFile());
  ASSERT_TRUE(soft.ok()) << soft.status();
  EXPECT_THAT(soft->missing_devices, ElementsAre("/gpu:0"));
  EXPECT_FALSE(absl::StrContains(soft->program->compute_fingerprint(), "gpu"));

  run.mutable_deployment()->set_allow_soft_placement(false);
  for (const uint32_t num_ps_tasks : {0, 1}) {
    run.mutable_deployment()->set_num_ps_tasks(num_ps_tasks);
    const absl::Status hard = Load(run);
    EXPECT_EQ(hard.code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(hard.message()), HasSubstr("device:GPU:0' because no devices"));
    EXPECT_THAT(std::string(hard.message()), HasSubstr("allow_soft_placement"));
  }
  // TF-Slim puts clones on GPUs unless told otherwise.
  run.mutable_deployment()->clear_devices();
  EXPECT_THAT(std::string(Load(run).message()), HasSubstr("device:GPU:0"));
  run.mutable_deployment()->set_clone_on_cpu(true);
  EXPECT_TRUE(Load(run).ok()) << Load(run);
}

// A data set of a program: two inputs and a target, with as many test examples as wanted.
DatasetFactory OwnData(int64_t test_examples) {
  return [test_examples](const v1::RunConfig& /*run*/,
                         DataSplit split) -> absl::StatusOr<std::unique_ptr<Dataset>> {
    const int64_t examples = split == DataSplit::kTrain ? 300 : test_examples;
    if (examples == 0) return absl::NotFoundError("there is no test split");
    std::vector<InMemoryDataset::Field> fields = {
        {"person", Tensor(DataType::kFloat32, {examples, 2})},
        {"place", Tensor(DataType::kFloat32, {examples, 3})},
        {"rating", Tensor(DataType::kFloat32, {examples, 1})}};
    fields.back().is_target = true;
    return InMemoryDataset::Create(std::move(fields));
  };
}

TEST(ReplicaInputsTest, AProgramMayHaveDataOfItsOwn) {
  v1::RunConfig run = Softmax();
  run.mutable_model()->set_name("");
  run.mutable_model()->set_loss("mean_squared_error");
  run.mutable_model()->add_input("place");
  run.mutable_model()->add_layer()->mutable_dense()->set_units(1);
  const auto make = [](const v1::RunConfig& config, const std::vector<FieldSpec>& fields,
                       int64_t classes) { return ModelFromRunFile()(config, fields, classes); };
  for (const int64_t test_examples : {20, 0}) {
    const absl::StatusOr<ReplicaInputs> inputs =
        LoadReplicaInputs(run, 0, ModelFactory(make, OwnData(test_examples)));
    ASSERT_TRUE(inputs.ok()) << inputs.status();
    EXPECT_EQ(inputs->declaration.train_examples(), 300u);
    EXPECT_EQ(inputs->declaration.test_examples(), static_cast<uint64_t>(test_examples));
    EXPECT_EQ(inputs->declaration.variables(0).shape(0), 3) << "the layer takes `place`";
    EXPECT_EQ(inputs->test == nullptr, test_examples == 0);
  }
}

TEST(ReplicaInputsTest, TheDataMustHaveTheLabelsOfTheLoss) {
  v1::RunConfig run = Softmax();
  run.mutable_model()->clear_name();
  run.mutable_model()->add_layer()->mutable_dense()->set_units(1);
  run.mutable_model()->set_loss("sigmoid_cross_entropy");
  run.mutable_data()->Clear();
  const std::string directory = ::testing::TempDir() + "/counts";
  run.mutable_data()->set_directory(directory);
  run.set_batch_size(2);
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSERT_TRUE(files->MakeDirectory(directory).ok());
  ASSERT_TRUE(WriteAtomically(*files, directory + "/train.csv", "a,clicks\n1,0\n2,1\n").ok());
  EXPECT_TRUE(Load(run).ok()) << Load(run);
  ASSERT_TRUE(WriteAtomically(*files, directory + "/train.csv", "a,clicks\n1,0\n2,3\n").ok());
  EXPECT_TRUE(absl::IsDataLoss(Load(run)));
  EXPECT_THAT(Load(run).message(),
              HasSubstr("/counts/train.csv:3: label in column \"clicks\" is 3: "
                        "it must be 0 or 1, because model.loss is sigmoid"));
  // A program's own model takes labels as it wants.
  const auto make = [](const v1::RunConfig& config, const std::vector<FieldSpec>& fields,
                       int64_t classes) { return ModelFromRunFile()(config, fields, classes); };
  const absl::StatusOr<ReplicaInputs> inputs = LoadReplicaInputs(run, 0, ModelFactory(make));
  EXPECT_TRUE(inputs.ok()) << inputs.status();
}

TEST(ReplicaInputsTest, ADenseEmbeddingThatIsMovedWholeIsNoted) {
  const DatasetFactory ids = [](const v1::RunConfig&,
                                DataSplit) -> absl::StatusOr<std::unique_ptr<Dataset>> {
    const Tensor rows(DataType::kInt32, {4, 2}), labels(DataType::kInt32, {4});
    ASSIGN_OR_RETURN(std::unique_ptr<Dataset> data,
                     InMemoryDataset::Create({{kInputField, rows}, {kLabelField, labels}}));
    return data;
  };
  const auto make = [](const v1::RunConfig& run, const std::vector<FieldSpec>& fields,
                       int64_t classes) { return ModelFromRunFile()(run, fields, classes); };
  const ModelFactory model(make, ids);
  v1::RunConfig run = Softmax();
  run.mutable_model()->clear_name();
  v1::EmbeddingLayer* const embedding = run.mutable_model()->add_layer()->mutable_embedding();
  embedding->set_rows(300000);
  embedding->set_units(32);
  run.mutable_model()->add_layer()->mutable_flatten();
  run.mutable_model()->add_layer()->mutable_dense()->set_units(10);
  run.set_batch_size(2);
  run.mutable_deployment()->set_num_ps_tasks(1);
  absl::StatusOr<ReplicaInputs> inputs = LoadReplicaInputs(run, 0, model);
  ASSERT_TRUE(inputs.ok()) << inputs.status();
  EXPECT_THAT(inputs->notices,
              ElementsAre(HasSubstr("[300000,32] in every step, 76 MB; make it a table")));
  run.mutable_deployment()->set_num_ps_tasks(0);  // Nothing is moved within a process.
  EXPECT_THAT(LoadReplicaInputs(run, 0, model)->notices, ElementsAre());
  run.mutable_deployment()->set_num_ps_tasks(1);
  run.mutable_model()->mutable_layer(0)->mutable_embedding()->set_rows(1000);
  EXPECT_THAT(LoadReplicaInputs(run, 0, model)->notices, ElementsAre());
}

}  // namespace
}  // namespace shoal
