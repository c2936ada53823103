#include "tests/examples/model_deploy_example.h"

#include <memory>
#include <string>

#include "gtest/gtest.h"

#include "base/file_system.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/data/records/tf_record_file.h"

namespace shoal {
namespace {

// The label says whether the first four of eight inputs sum to more than the others.
std::unique_ptr<InMemoryDataset> Comparisons() {
  constexpr int kExamples = 512;
  Tensor inputs(DataType::kFloat32, {kExamples, 8});
  Tensor labels(DataType::kFloat32, {kExamples, 1});
  uint32_t state = 1;
  for (int i = 0; i < kExamples; ++i) {
    float difference = 0;
    for (int k = 0; k < 8; ++k) {
      state = state * 1664525u + 1013904223u;
      const float x = static_cast<float>(state >> 8) / 16777216.0f;
      inputs.mutable_span<float>()[i * 8 + k] = x;
      difference += k < 4 ? x : -x;
    }
    labels.mutable_span<float>()[i] = difference > 0 ? 1.0f : 0.0f;
  }
  return *InMemoryDataset::Create({{"images", inputs}, {"labels", labels}});
}

TEST(ModelDeployExampleTest, LearnsAndWritesItsSummaries) {
  const auto dataset = Comparisons();
  ModelDeployExampleOptions options;
  options.log_directory = testing::TempDir() + "/events";
  options.num_steps = 300;
  const auto loss = RunModelDeployExample(*dataset, options);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_LT(*loss, 0.2f);
  const auto files = NewPosixFileSystem();
  const auto names = files->List(options.log_directory);
  ASSERT_EQ(names->size(), 1u);
  const auto records = TfRecordFile::Open(*files, options.log_directory + "/" + names->at(0));
  ASSERT_TRUE(records.ok()) << records.status();
  // Two at the start, then the scalars and the gradients of four variables, of steps 1, 100, 200,
  // 300.
  EXPECT_EQ((*records)->size(), 2 + 4 * 5);
  std::string buffer;
  const auto last = (*records)->Read((*records)->size() - 1, &buffer);
  for (const char* tag :
       {"clone_0/clone_loss", "total_loss", "fully_connected/weights/gradient_norm"}) {
    EXPECT_NE(last->find(tag), absl::string_view::npos) << tag;
  }
}

TEST(ModelDeployExampleTest, ATooSmallDataSetIsNamed) {
  const auto dataset = Comparisons();
  ModelDeployExampleOptions options;
  options.batch_size = 300;
  EXPECT_EQ(RunModelDeployExample(*dataset, options).status().message(),
            "the data set has 512 examples, fewer than one batch of 600; lower "
            "TrainingLoopOptions::batch_size, which is 300 for each clone");
}

}  // namespace
}  // namespace shoal
