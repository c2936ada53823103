#include "tests/examples/model_deploy_example.h"

#include <fstream>
#include <string>

#include "gtest/gtest.h"

#include "ml/data/in_memory_dataset.h"

namespace shoal {
namespace {

// Whether the first four of eight inputs sum to more than the others.
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
  options.log_directory = testing::TempDir();
  options.num_steps = 300;
  const auto loss = RunModelDeployExample(*dataset, options);
  ASSERT_TRUE(loss.ok()) << loss.status();
  EXPECT_LT(*loss, 0.2f);
  std::ifstream file(options.log_directory + "/summaries.jsonl");
  std::string line;
  int64_t num_lines = 0;
  while (std::getline(file, line)) {
    if (num_lines == 0) {
      EXPECT_EQ(line.find("{\"step\": 0, \"clone_0/clone_loss\": "), 0u) << line;
      EXPECT_NE(line.find("\"total_loss\": "), std::string::npos) << line;
    }
    ++num_lines;
  }
  EXPECT_EQ(num_lines, options.num_steps);
}

TEST(ModelDeployExampleTest, ATooSmallDataSetIsNamed) {
  const auto dataset = Comparisons();
  ModelDeployExampleOptions options;
  options.batch_size = 300;
  EXPECT_EQ(RunModelDeployExample(*dataset, options).status().message(),
            "the data set has fewer examples than one batch");
}

}  // namespace
}  // namespace shoal
