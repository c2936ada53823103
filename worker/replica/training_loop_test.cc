#include "worker/replica/training_loop.h"

#include <cmath>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/deploy/model_deploy.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/model.h"
#include "proto/v1/optimizer_config.pb.h"
#include "runtime/checkpoint/checkpoint_directory.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr int kExamples = 200;  // six batches of 32, and some examples more

// Each input is increased by the offset, which does not change the labels.
std::unique_ptr<InMemoryDataset> Comparisons(int examples, float offset) {
  Tensor inputs(DataType::kFloat32, {examples, 4});
  Tensor labels(DataType::kFloat32, {examples, 1});
  uint32_t state = 1;
  for (int i = 0; i < examples; ++i) {
    float difference = 0;
    for (int k = 0; k < 4; ++k) {
      state = state * 1664525u + 1013904223u;
      const float x = static_cast<float>(state >> 8) / 16777216.0f;
      inputs.mutable_span<float>()[i * 4 + k] = x + offset;
      difference += k < 2 ? x : -x;
    }
    labels.mutable_span<float>()[i] = difference > 0 ? 1.0f : 0.0f;
  }
  return *InMemoryDataset::Create({{"inputs", inputs}, {"labels", labels}});
}

struct Settings {
  int hidden_units = 8;
  int num_clones = 2;
  int examples = kExamples;
  float offset = 0;
  bool is_sgd = false;
  bool keeps_averages = true;
  TrainingLoopOptions loop;
};

// A model, its data, and the loop that trains it.
class Program {
 public:
  explicit Program(const Settings& settings)
      : dataset_(Comparisons(settings.examples, settings.offset)),
        builder_(&graph_),
        queue_(dataset_->fields()) {
    DeploymentConfigOptions deployment;
    deployment.num_clones = settings.num_clones;
    deployment.clone_on_cpu = true;
    optimizer_.set_learning_rate(0.01);
    if (settings.keeps_averages) optimizer_.set_moving_average_decay(0.9);
    if (settings.is_sgd) {
      optimizer_.mutable_sgd();
    } else {
      optimizer_.mutable_adam();
    }
    const auto clone = [&](GraphBuilder& builder) -> std::vector<Output> {
      const std::vector<Output> batch = queue_.Dequeue(builder);
      DenseOptions hidden;
      hidden.units = settings.hidden_units;
      hidden.activation = Activation::kRelu;
      const Output predictions =
          Dense(builder, Dense(builder, batch[0], hidden), {1, Activation::kSigmoid});
      AddLogLoss(builder, predictions, batch[1]);
      return {predictions};
    };
    model_ = *Deploy(*DeploymentConfig::Create(deployment), builder_, clone, &optimizer_);
    TrainingLoopOptions options = settings.loop;
    options.batch_size = 32 / settings.num_clones;
    loop_ = TrainingLoop::Create(graph_, model_, queue_, *dataset_, options);
  }

  const absl::Status& status() const { return loop_.status(); }
  TrainingLoop& loop() { return **loop_; }

  // The bytes of all variables and slots.
  std::string GetState() {
    const OwnedVariables& variables = loop().variables();
    std::string state;
    const auto add = [&state](absl::Span<const float> values) {
      state.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
    };
    for (size_t v = 0; v < variables.size(); ++v) {
      add(variables.value(v));
      for (size_t s = 0; s < variables.slot_names(v).size(); ++s) add(variables.slot(v, s));
    }
    return state;
  }

 private:
  const std::unique_ptr<InMemoryDataset> dataset_;
  Graph graph_;
  GraphBuilder builder_;
  InputQueue queue_;
  v1::OptimizerConfig optimizer_;
  DeployedModel model_;
  absl::StatusOr<std::unique_ptr<TrainingLoop>> loop_;
};

class TrainingLoopTest : public testing::Test {
 protected:
  void SetUp() override {
    directory_ =
        testing::TempDir() + "/" + testing::UnitTest::GetInstance()->current_test_info()->name();
    ASSERT_OK(RemoveTree(*files_, directory_));
    settings_.loop.checkpoint_directory = directory_;
    settings_.loop.checkpoint_every_steps = 4;
  }

  static std::string Name(uint64_t step, uint64_t lineage = 0) {
    return CheckpointName{step, /*term=*/0, lineage}.ToString();
  }

  std::vector<std::string> ListCheckpoints() {
    const auto directory = CheckpointDirectory::Open(*files_, directory_ + "/checkpoints");
    std::vector<std::string> names;
    const auto listed = (*directory)->List();
    for (const CheckpointName& name : *listed) names.push_back(name.ToString());
    return names;
  }

  // Overwrites a byte in the middle of a checkpoint's values.
  void Damage(const std::string& name) {
    const std::string folder = JoinPath(directory_ + "/checkpoints", name);
    const auto files = files_->List(folder);
    for (const std::string& file : *files) {
      if (file.find(".safetensors") == std::string::npos) continue;
      const std::string path = JoinPath(folder, file);
      const uint64_t size = files_->GetInfo(path)->size;
      ASSERT_OK((*files_->OpenForUpdate(path))->WriteAt(size - 9, "x"));
      return;
    }
    FAIL() << "no shard in " << folder;
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  std::string directory_;
  Settings settings_;
};

TEST_F(TrainingLoopTest, ARestoredLoopEndsWithTheBytesOfOneThatNeverEnded) {
  Settings without = settings_;
  without.loop.checkpoint_directory = "";
  Program whole(without);
  ASSERT_OK_AND_ASSIGN(const float loss, whole.loop().Train(17));
  {
    Program first(settings_);
    EXPECT_EQ(first.loop().step(), 0);
    ASSERT_OK(first.loop().Train(10).status());
  }
  Program second(settings_);
  ASSERT_OK(second.status());
  EXPECT_EQ(second.loop().step(), 10);
  ASSERT_OK_AND_ASSIGN(const float restored_loss, second.loop().TrainTo(17));
  EXPECT_EQ(second.loop().step(), 17);
  EXPECT_EQ(restored_loss, loss);
  EXPECT_TRUE(second.GetState() == whole.GetState());
}

TEST_F(TrainingLoopTest, KeepsTheNewestCheckpoints) {
  settings_.loop.checkpoints_to_keep = 2;
  auto program = std::make_unique<Program>(settings_);
  ASSERT_OK(program->loop().Train(10).status());
  EXPECT_THAT(ListCheckpoints(), testing::ElementsAre(Name(10), Name(8)));
  // A loop that takes no step writes nothing.
  program.reset();
  EXPECT_TRUE(std::isnan(*Program(settings_).loop().TrainTo(10)));
  EXPECT_TRUE(std::isnan(*Program(settings_).loop().Train(0)));
  EXPECT_EQ(ListCheckpoints().front(), Name(10));
}

TEST_F(TrainingLoopTest, ADamagedCheckpointGivesWayToTheOneBefore) {
  std::string whole;
  {
    Program program(settings_);
    ASSERT_OK(program.loop().Train(10).status());
    whole = program.GetState();
  }
  Damage(Name(10));
  {
    Program restored(settings_);
    ASSERT_OK(restored.status());
    EXPECT_EQ(restored.loop().step(), 8);
    ASSERT_OK(restored.loop().Train(2).status());
    EXPECT_TRUE(restored.GetState() == whole);
  }
  EXPECT_EQ(ListCheckpoints().front(), Name(10, 1));
  EXPECT_EQ(Program(settings_).loop().step(), 10);
}

TEST_F(TrainingLoopTest, DamageOfAllCheckpointsIsAnError) {
  ASSERT_OK(Program(settings_).loop().Train(3).status());
  Damage(Name(3));
  const absl::Status status = Program(settings_).status();
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("name another TrainingLoopOptions::checkpoint_directory to start anew"));
}

TEST_F(TrainingLoopTest, CheckpointsThatWereRemovedAreAnError) {
  ASSERT_OK(Program(settings_).loop().Train(3).status());
  ASSERT_OK(RemoveTree(*files_, JoinPath(directory_ + "/checkpoints", Name(3))));
  const absl::Status status = Program(settings_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("but none is there any more; bring it"));
}

TEST_F(TrainingLoopTest, ACheckpointOfOtherSettingsIsRefusedWithTheRemedy) {
  ASSERT_OK(Program(settings_).loop().Train(3).status());
  const auto refused = [&](void (*change)(Settings*)) {
    Settings other = settings_;
    change(&other);
    const absl::Status status = Program(other).status();
    EXPECT_TRUE(absl::IsFailedPrecondition(status)) << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(directory_));
    return std::string(status.message());
  };
  EXPECT_THAT(refused([](Settings* s) { s->hidden_units = 9; }),
              HasSubstr("has variable fully_connected/weights of shape [4,8], the model of shape "
                        "[4,9]"));
  EXPECT_THAT(refused([](Settings* s) { s->is_sgd = true; }),
              HasSubstr("was made with the optimizer adam; use that one, not sgd, or name "
                        "another TrainingLoopOptions::checkpoint_directory"));
  EXPECT_THAT(refused([](Settings* s) { s->loop.seed = 2; }),
              HasSubstr("the seed 1; set TrainingLoopOptions::seed to it, not to 2"));
  EXPECT_THAT(refused([](Settings* s) { s->offset = 0.5f; }),
              HasSubstr("was made with another data set; train on that data set"));
  EXPECT_THAT(refused([](Settings* s) { s->examples = 300; }),
              HasSubstr("a data set of 200 examples; train on that data set, not on one of 300"));
}

TEST_F(TrainingLoopTest, ADirectoryServesOneLoopAtATime) {
  Program first(settings_);
  ASSERT_OK(first.status());
  const absl::Status second = Program(settings_).status();
  EXPECT_TRUE(absl::IsAlreadyExists(second)) << second;
  EXPECT_THAT(std::string(second.message()),
              HasSubstr("TrainingLoopOptions::checkpoint_directory: another loop or run is using " +
                        directory_ + " (pid "));
}

TEST_F(TrainingLoopTest, AnAverageThatWasNotKeptStartsFromTheValue) {
  settings_.keeps_averages = false;
  ASSERT_OK(Program(settings_).loop().Train(3).status());
  settings_.keeps_averages = true;
  Program restored(settings_);
  ASSERT_OK(restored.status());
  const OwnedVariables& variables = restored.loop().variables();
  const size_t average = variables.slot_names(0).size() - 1;
  EXPECT_EQ(variables.slot(0, average), variables.value(0));
}

TEST_F(TrainingLoopTest, BadOptionsAreNamed) {
  Settings settings = settings_;
  settings.loop.checkpoints_to_keep = 0;
  EXPECT_EQ(Program(settings).status().message(),
            "TrainingLoopOptions::checkpoints_to_keep is 0; it must be at least 1");
  settings = settings_;
  settings.loop.checkpoint_every_steps = -1;
  EXPECT_EQ(Program(settings).status().message(),
            "TrainingLoopOptions::checkpoint_every_steps is -1; it must be at least 0");
  settings = settings_;
  settings.loop.checkpoint_directory = "/proc/no_such_directory";
  EXPECT_THAT(std::string(Program(settings).status().message()), HasSubstr("/proc/"));
}

TEST_F(TrainingLoopTest, AUrlIsRefusedAsADirectory) {
  Settings settings = settings_;
  settings.loop.checkpoint_directory = "s3://bucket/loop";
  EXPECT_EQ(Program(settings).status().message(),
            "TrainingLoopOptions::checkpoint_directory: \"s3://bucket/loop\" is not a path of this "
            "machine; mount the storage that s3:// names, and give the directory where it is "
            "mounted");
  settings = settings_;
  settings.loop.log_directory = "gs://bucket/events";
  EXPECT_THAT(
      std::string(Program(settings).status().message()),
      HasSubstr("TrainingLoopOptions::log_directory: \"gs://bucket/events\" is not a path"));
}

}  // namespace
}  // namespace shoal
