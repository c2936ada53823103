#include "ml/data/image.h"

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::FloatNear;
using ::testing::Pointwise;

std::vector<float> Resize(const Image& image, int64_t height, int64_t width) {
  ResizeScratch scratch;
  std::vector<float> planes(static_cast<size_t>(image.size.channels * height * width));
  ResizeToPlanes(image, height, width, &scratch, planes.data());
  return planes;
}

TEST(ImageTest, GreyBecomesThreeEqualChannelsAndBack) {
  Image image = {{1, 2, 1}, {7, 200}};
  ConvertChannels(3, &image);
  EXPECT_THAT(image.pixels, ElementsAre(7, 7, 7, 200, 200, 200));
  EXPECT_EQ(image.size.channels, 3);
  ConvertChannels(1, &image);
  EXPECT_THAT(image.pixels, ElementsAre(7, 200));
}

TEST(ImageTest, LumaIsThatOfPillow) {
  Image image = {{1, 4, 3}, {255, 0, 0, 0, 255, 0, 0, 0, 255, 10, 20, 30}};
  ConvertChannels(1, &image);
  EXPECT_THAT(image.pixels, ElementsAre(76, 150, 29, 18));
}

TEST(ImageTest, AnImageOfTheSizeIsCutIntoPlanes) {
  const Image image = {{1, 2, 3}, {0, 51, 255, 102, 153, 204}};
  EXPECT_THAT(Resize(image, 1, 2), ElementsAre(0.0f, 0.4f, 0.2f, 0.6f, 1.0f, 0.8f));
}

TEST(ImageTest, EnlargingIsBilinearWithCentresAtHalves) {
  const Image image = {{1, 2, 1}, {0, 255}};
  EXPECT_THAT(Resize(image, 1, 4), Pointwise(FloatNear(1e-6f), {0.0f, 0.25f, 0.75f, 1.0f}));
  const Image column = {{2, 1, 1}, {0, 255}};
  EXPECT_THAT(Resize(column, 4, 1), Pointwise(FloatNear(1e-6f), {0.0f, 0.25f, 0.75f, 1.0f}));
}

// Computed by hand: the triangle is four pixels wide on each side of its centre; the weights of the
// first output pixel are 5, 7, 7, 5, 3 and 1, divided by their sum.
TEST(ImageTest, ShrinkingWeighsEveryPixel) {
  const Image image = {{1, 8, 1}, {0, 1, 2, 3, 4, 5, 6, 7}};
  EXPECT_THAT(Resize(image, 1, 2),
              Pointwise(FloatNear(1e-6f), {53.0f / 28 / 255, 143.0f / 28 / 255}));
}

TEST(ImageTest, ConstantImagesStayConstant) {
  Image image = {{5, 7, 3}, std::vector<uint8_t>(105, 120)};
  for (const int64_t side : {1, 3, 6, 20}) {
    for (const float value : Resize(image, side, side + 1)) {
      EXPECT_NEAR(value, 120.0f / 255, 1e-5f);
    }
  }
}

}  // namespace
}  // namespace shoal
