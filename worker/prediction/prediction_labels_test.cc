#include "worker/prediction/prediction_labels.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gtest/gtest.h"

namespace shoal {
namespace {

Tensor Rows(int64_t rows, int64_t columns, const std::vector<float>& values) {
  Tensor tensor(DataType::kFloat32, Shape({rows, columns}));
  std::copy(values.begin(), values.end(), tensor.mutable_span<float>().begin());
  return tensor;
}

TEST(PredictionLabelsTest, WithoutNamesColumnsAreNumbered) {
  const Tensor rows = Rows(2, 2, {0.5f, 1, -1, 2});
  EXPECT_EQ(PredictionsCsv(rows, {}), "output_0,output_1\n0.5,1\n-1,2\n");
  EXPECT_EQ(PredictedClasses(rows, {}, false), "");
}

TEST(PredictionLabelsTest, ClassesAndFilesAreNamed) {
  const Tensor rows = Rows(2, 2, {0.75f, 0.25f, 0, 1});
  PredictionLabels labels;
  labels.classes = {"cat", "dog, wet"};
  EXPECT_EQ(PredictionsCsv(rows, labels),
            "cat,\"dog, wet\",class\n0.75,0.25,cat\n0,1,\"dog, wet\"\n");
  EXPECT_EQ(PredictedClasses(rows, labels, false), "example 0: cat\nexample 1: dog, wet\n");
  labels.examples = {"a.png", "b.png"};
  EXPECT_EQ(PredictionsCsv(rows, labels),
            "file,cat,\"dog, wet\",class\na.png,0.75,0.25,cat\nb.png,0,1,\"dog, wet\"\n");
  EXPECT_EQ(PredictedClasses(rows, labels, false), "a.png: cat\nb.png: dog, wet\n");
  EXPECT_EQ(PredictedClasses(rows, labels, true), "a.png: cat 0.75\nb.png: dog, wet 1.00\n");
}

TEST(PredictionLabelsTest, ClassesWithoutNamesAreNumbers) {
  const Tensor rows = Rows(2, 2, {0.75f, 0.25f, 0, 1});
  PredictionLabels labels;
  labels.examples = {"a.png", "b.png"};
  EXPECT_EQ(PredictedClasses(rows, labels, true), "");
  labels.are_classes = true;
  EXPECT_EQ(PredictedClasses(rows, labels, true), "a.png: class 0 0.75\nb.png: class 1 1.00\n");
  EXPECT_EQ(PredictionsCsv(rows, labels), "file,output_0,output_1\na.png,0.75,0.25\nb.png,0,1\n");
}

TEST(PredictionLabelsTest, NamesThatAreNotUsedAreNoticed) {
  const Tensor rows = Rows(1, 3, {0, 1, 0});
  EXPECT_EQ(NoticeOfUnusedNames(rows, {"cat", "dog"}),
            "the run's classes.txt names 2 classes, but the model has 3 outputs: predictions are "
            "numbers without names; for names train a model with an output for each class");
  EXPECT_EQ(NoticeOfUnusedNames(rows, {"a", "b", "c"}), "");
  EXPECT_EQ(NoticeOfUnusedNames(rows, {}), "");
}

TEST(PredictionLabelsTest, ALongListIsForTheFile) {
  const Tensor rows = Rows(12, 1, std::vector<float>(12, 1));
  PredictionLabels labels;
  labels.classes = {"x"};
  labels.examples.assign(12, "f");
  const std::string text = PredictedClasses(rows, labels, false);
  EXPECT_EQ(text.substr(text.size() - 16), "f: x\nand 2 more\n");
}

}  // namespace
}  // namespace shoal
