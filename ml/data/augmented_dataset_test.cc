#include "ml/data/augmented_dataset.h"

#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/tensor/tensor.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kExamples = 40;

// Images of 1 x 2 x 3 with the values 1 to 6, and the example's number as the label.
std::unique_ptr<Dataset> Numbers(const Shape& shape = {kExamples, 1, 2, 3}) {
  Tensor images(DataType::kFloat32, shape);
  Tensor labels(DataType::kInt32, {shape.dim(0)});
  const auto pixels = images.mutable_span<float>();
  const size_t per_image = pixels.size() / static_cast<size_t>(shape.dim(0));
  for (size_t i = 0; i < pixels.size(); ++i) pixels[i] = static_cast<float>(1 + i % per_image);
  for (int64_t i = 0; i < shape.dim(0); ++i) {
    labels.mutable_span<int32_t>()[static_cast<size_t>(i)] = static_cast<int32_t>(i);
  }
  return InMemoryDataset::Create({{kInputField, images}, {kLabelField, labels}}).value();
}

std::vector<float> ImageOf(const Dataset& dataset, uint32_t epoch, int64_t index) {
  std::vector<float> image(static_cast<size_t>(dataset.fields()[0].example.shape.num_elements()));
  int32_t label = 0;
  EXPECT_OK(dataset.FillBatch(epoch, {index}, {image.data(), &label}));
  EXPECT_EQ(label, index);
  return image;
}

std::unique_ptr<Dataset> Augmented(const AugmentedDatasetOptions& options) {
  EXPECT_TRUE(ChangesImages(options));
  return AugmentImages(Numbers(), options).value();
}

TEST(AugmentedDatasetTest, FlipsEverySecondImageFromLeftToRight) {
  AugmentedDatasetOptions options;
  options.is_training = true;
  options.flip = true;
  const auto dataset = Augmented(options);
  int flipped = 0;
  for (int64_t i = 0; i < kExamples; ++i) {
    const std::vector<float> image = ImageOf(*dataset, 0, i);
    if (image[0] == 1) {
      EXPECT_THAT(image, ElementsAre(1, 2, 3, 4, 5, 6));
    } else {
      EXPECT_THAT(image, ElementsAre(3, 2, 1, 6, 5, 4));
      ++flipped;
    }
  }
  EXPECT_GT(flipped, 10);
  EXPECT_LT(flipped, 30);
}

TEST(AugmentedDatasetTest, RandomChangesDependOnSeedEpochAndExampleAlone) {
  AugmentedDatasetOptions options;
  options.is_training = true;
  options.flip = true;
  options.pad = 2;
  options.seed = 9;
  const auto dataset = Augmented(options);
  const auto again = Augmented(options);
  options.seed = 10;
  const auto other = Augmented(options);
  std::vector<float> batch(kExamples * 6);
  std::vector<int32_t> labels(kExamples);
  std::vector<int64_t> backwards;
  for (int64_t i = kExamples; i-- > 0;) backwards.push_back(i);
  ASSERT_OK(again->FillBatch(3, backwards, {batch.data(), labels.data()}));
  int other_epoch = 0, other_seed = 0;
  for (int64_t i = 0; i < kExamples; ++i) {
    const std::vector<float> image = ImageOf(*dataset, 3, i);
    const float* row = &batch[static_cast<size_t>(kExamples - 1 - i) * 6];
    EXPECT_EQ(image, std::vector<float>(row, row + 6));
    other_epoch += image != ImageOf(*dataset, 4, i) ? 1 : 0;
    other_seed += image != ImageOf(*other, 3, i) ? 1 : 0;
  }
  EXPECT_GT(other_epoch, 30);
  EXPECT_GT(other_seed, 30);
}

TEST(AugmentedDatasetTest, PaddingIsBlackBeforeItIsNormalised) {
  AugmentedDatasetOptions options;
  options.is_training = true;
  options.pad = 1;
  options.mean = {1};
  options.stddev = {0.5f};
  const auto dataset = Augmented(options);
  std::set<std::vector<float>> seen;
  for (uint32_t epoch = 0; epoch < 4; ++epoch) {
    for (int64_t i = 0; i < kExamples; ++i) seen.insert(ImageOf(*dataset, epoch, i));
  }
  EXPECT_EQ(seen.size(), 9u) << "three places in each direction";
  EXPECT_EQ(seen.count({0, 2, 4, 6, 8, 10}), 1u) << "the image in its place";
  EXPECT_EQ(seen.count({-2, -2, -2, -2, 0, 2}), 1u) << "one row and one column away";
  EXPECT_EQ(seen.count({8, 10, -2, -2, -2, -2}), 1u) << "in the other direction";
}

TEST(AugmentedDatasetTest, EvaluationCropsTheMiddleAndDrawsNothing) {
  AugmentedDatasetOptions options;
  options.flip = true;
  options.pad = 3;
  EXPECT_FALSE(ChangesImages(options));
  options.crop = 1;
  const auto dataset = AugmentImages(Numbers({2, 3, 3, 3}), options).value();
  EXPECT_EQ(dataset->fields()[0].example.shape, Shape({3, 1, 1}));
  for (uint32_t epoch = 0; epoch < 3; ++epoch) {
    EXPECT_THAT(ImageOf(*dataset, epoch, 1), ElementsAre(5, 14, 23));
  }
}

TEST(AugmentedDatasetTest, CropsAreTakenFromAnywhereInTraining) {
  AugmentedDatasetOptions options;
  options.is_training = true;
  options.crop = 2;
  const auto dataset = AugmentImages(Numbers({1, 1, 3, 3}), options).value();
  std::set<std::vector<float>> seen;
  for (uint32_t epoch = 0; epoch < 60; ++epoch) seen.insert(ImageOf(*dataset, epoch, 0));
  EXPECT_EQ(seen,
            (std::set<std::vector<float>>{{1, 2, 4, 5}, {2, 3, 5, 6}, {4, 5, 7, 8}, {5, 6, 8, 9}}));
}

TEST(AugmentedDatasetTest, MeanAndDeviationArePerChannel) {
  AugmentedDatasetOptions options;
  options.mean = {1, 2};
  options.stddev = {1, 2};
  const auto dataset = AugmentImages(Numbers({1, 2, 1, 2}), options).value();
  EXPECT_THAT(ImageOf(*dataset, 0, 0), ElementsAre(0, 1, 0.5, 1));
}

TEST(AugmentedDatasetTest, MisfitsAreNamed) {
  AugmentedDatasetOptions options;
  options.crop = 3;
  EXPECT_THAT(AugmentImages(Numbers(), options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.image.crop: is 3, but the images are 3 x 2; set")));
  options.crop = 0;
  options.mean = {1, 2};
  EXPECT_THAT(AugmentImages(Numbers(), options),
              StatusIs(absl::StatusCode::kInvalidArgument,
                       HasSubstr("data.image.mean: has 2 numbers, but the images have 1 channel")));
  EXPECT_THAT(AugmentImages(Numbers({2, 6}), options),
              StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr("inputs are float32[6]")));
}

}  // namespace
}  // namespace shoal
