#include "ml/data/byte_images.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::Each;
using ::testing::ElementsAre;

ByteImages Two() {
  ByteImages images;
  images.size = {1, 2, 3};
  images.planes = {0, 51, 102, 153, 204, 255, 51, 51, 51, 51, 51, 51};
  images.labels = {3, 1};
  images.num_classes = 4;
  return images;
}

TEST(ByteImagesTest, BytesAreDividedBy255) {
  const auto dataset = NewByteImageDataset(Two(), {});
  EXPECT_EQ(dataset->size(), 2);
  EXPECT_EQ(dataset->num_classes(), 4);
  EXPECT_FALSE(dataset->is_costly());
  EXPECT_EQ(dataset->fields()[0].example.ToString(), "float32[3,1,2]");
  std::vector<float> planes(12);
  int32_t labels[2];
  ASSERT_OK(dataset->FillBatch(0, {1, 0}, {planes.data(), labels}));
  EXPECT_THAT(planes,
              ElementsAre(0.2f, 0.2f, 0.2f, 0.2f, 0.2f, 0.2f, 0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f));
  EXPECT_THAT(labels, ElementsAre(1, 3));
}

TEST(ByteImagesTest, ImagesAreResizedAndConvertedWhereAskedFor) {
  const auto dataset = NewByteImageDataset(Two(), {4, 4, 1});
  EXPECT_EQ(dataset->fields()[0].example.ToString(), "float32[1,4,4]");
  EXPECT_TRUE(dataset->is_costly());
  std::vector<float> planes(16);
  int32_t label = 0;
  ASSERT_OK(dataset->FillBatch(0, {1}, {planes.data(), &label}));
  EXPECT_THAT(planes, Each(::testing::FloatNear(0.2f, 1e-6f)));
  EXPECT_EQ(label, 1);
}

TEST(ByteImagesTest, PixelsLabelsAndTargetMakeTheFingerprint) {
  const uint64_t first = NewByteImageDataset(Two(), {})->fingerprint();
  EXPECT_EQ(NewByteImageDataset(Two(), {})->fingerprint(), first);
  EXPECT_NE(NewByteImageDataset(Two(), {2, 2, 3})->fingerprint(), first);
  ByteImages images = Two();
  images.labels[0] = 2;
  EXPECT_NE(NewByteImageDataset(images, {})->fingerprint(), first);
  images = Two();
  images.planes[3] = 0;
  EXPECT_NE(NewByteImageDataset(images, {})->fingerprint(), first);
}

}  // namespace
}  // namespace shoal
