#include "ml/data/image_decoder.h"

#include <cstdlib>
#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/random.h"
#include "base/status_matchers.h"
#include "ml/data/image_encoder_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Colours that change slowly, so that JPEG keeps them.
Image Smooth(int64_t height, int64_t width, int64_t channels) {
  Image image = {{height, width, channels}, {}};
  for (int64_t y = 0; y < height; ++y) {
    for (int64_t x = 0; x < width; ++x) {
      for (int64_t c = 0; c < channels; ++c) {
        image.pixels.push_back(static_cast<uint8_t>(40 + 3 * y + 2 * x + 20 * c));
      }
    }
  }
  return image;
}

absl::StatusOr<Image> Decode(absl::string_view bytes, const DecodeLimits& limits = {}) {
  Image image;
  const absl::Status status = DecodeImage(bytes, limits, &image);
  if (!status.ok()) return status;
  return image;
}

void ExpectNear(const Image& image, const Image& wanted, int tolerance) {
  ASSERT_TRUE(image.size == wanted.size);
  for (size_t i = 0; i < image.pixels.size(); ++i) {
    ASSERT_LE(std::abs(image.pixels[i] - wanted.pixels[i]), tolerance) << "at " << i;
  }
}

TEST(ImageDecoderTest, PngComesBackExactly) {
  for (const int64_t channels : {1, 3}) {
    const Image image = Smooth(13, 7, channels);
    ASSERT_OK_AND_ASSIGN(const Image decoded, Decode(EncodePng(image)));
    ExpectNear(decoded, image, 0);
  }
}

TEST(ImageDecoderTest, JpegComesBackNearly) {
  for (const int64_t channels : {1, 3}) {
    for (const bool is_progressive : {false, true}) {
      const Image image = Smooth(25, 17, channels);
      ASSERT_OK_AND_ASSIGN(const Image decoded, Decode(EncodeJpeg(image, 95, is_progressive)));
      ExpectNear(decoded, image, 8);
    }
  }
}

// Written byte by byte by a script after the PNG specification.
constexpr char kPalette[] =
    "89504e470d0a1a0a0000000d49484452000000020000000202030000000fd8e5b70000000c504c5445ff000000ff00"
    "0000ff090807a2d262c00000000c4944415478da639060380000010c00d97081e3880000000049454e44ae426082";
constexpr char kGrey16WithAlpha[] =
    "89504e470d0a1a0a0000000d49484452000000020000000110040000000ebb6b42000000114944415478da631032f9"
    "ff7ff559060600120d03bd4a3a3a800000000049454e44ae426082";
constexpr char kOneBit[] =
    "89504e470d0a1a0a0000000d4948445200000008000000010100000000cb7bd2ee0000000a4944415478da63d80800"
    "00b300b28c1a2b470000000049454e44ae426082";
constexpr char kTransparent[] =
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63606462"
    "66000000150007f3f4325e0000000049454e44ae426082";
constexpr char kInterlaced[] =
    "89504e470d0a1a0a0000000d494844520000000200000002080000000120da626e0000000f49444154789c63e06210"
    "6190d3000000f700659f55b2050000000049454e44ae426082";
constexpr char kBombOf60000Squared[] =
    "89504e470d0a1a0a0000000d494844520000ea600000ea6008020000000fb0e2150000000c49444154789c6360a03d"
    "00000064000186643c350000000049454e44ae426082";
constexpr char kBombOf8000Squared[] =
    "89504e470d0a1a0a0000000d4948445200001f4000001f40080200000089933aa30000000c49444154789c6360a03d"
    "00000064000186643c350000000049454e44ae426082";

std::vector<uint8_t> PixelsOf(const char* hex) {
  return Decode(absl::HexStringToBytes(hex)).value().pixels;
}

TEST(ImageDecoderTest, EveryKindOfPngBecomesGreyOrRgbOfEightBits) {
  EXPECT_THAT(PixelsOf(kPalette), ElementsAre(255, 0, 0, 0, 255, 0, 9, 8, 7, 255, 0, 0));
  EXPECT_THAT(PixelsOf(kGrey16WithAlpha), ElementsAre(0x12, 0xab));
  EXPECT_THAT(PixelsOf(kOneBit), ElementsAre(255, 0, 255, 255, 0, 0, 0, 255));
  EXPECT_THAT(PixelsOf(kTransparent), ElementsAre(1, 2, 3));
  EXPECT_THAT(PixelsOf(kInterlaced), ElementsAre(10, 20, 30, 40));
}

TEST(ImageDecoderTest, HeadersThatPromiseTooMuchTakeNoMemory) {
  for (const char* bomb : {kBombOf60000Squared, kBombOf8000Squared}) {
    EXPECT_THAT(Decode(absl::HexStringToBytes(bomb)),
                StatusIs(absl::StatusCode::kDataLoss, HasSubstr("its header promises")));
  }
  DecodeLimits limits;
  limits.max_pixels = 100;
  EXPECT_THAT(
      Decode(EncodeJpeg(Smooth(20, 20, 3), 90), limits),
      StatusIs(absl::StatusCode::kDataLoss, HasSubstr("20 x 20 pixels, more than the 100")));
}

TEST(ImageDecoderTest, AJpegIsShrunkWhileDecodingButNotBelowTheLimit) {
  DecodeLimits limits;
  limits.min_height = 30;
  limits.min_width = 20;
  ASSERT_OK_AND_ASSIGN(const Image half, Decode(EncodeJpeg(Smooth(80, 70, 1), 90), limits));
  EXPECT_EQ(half.size.height, 40);
  EXPECT_EQ(half.size.width, 35);
  ASSERT_OK_AND_ASSIGN(const Image whole, Decode(EncodeJpeg(Smooth(20, 90, 1), 90), limits));
  EXPECT_EQ(whole.size.height, 20);
}

TEST(ImageDecoderTest, OtherBytesAreRefused) {
  EXPECT_THAT(Decode(""), StatusIs(absl::StatusCode::kDataLoss, HasSubstr("it is empty")));
  EXPECT_THAT(Decode("BM6abcdefg"),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("neither PNG nor JPEG")));
}

TEST(ImageDecoderTest, TruncatedFilesAreRefused) {
  const Image image = Smooth(24, 24, 3);
  for (const std::string& file :
       {EncodePng(image), EncodeJpeg(image, 90), EncodeJpeg(image, 90, /*is_progressive=*/true)}) {
    for (size_t size = 0; size < file.size() - 2; size += 7) {
      EXPECT_THAT(Decode(file.substr(0, size)), StatusIs(absl::StatusCode::kDataLoss)) << size;
    }
  }
}

// Each mutant either decodes to an image of some size or is refused; the sanitizers see the rest.
TEST(ImageDecoderTest, NoBytesCrashTheDecoders) {
  const Image image = Smooth(19, 23, 3);
  std::vector<std::string> corpus = {EncodePng(image), EncodeJpeg(image, 80),
                                     EncodeJpeg(image, 80, /*is_progressive=*/true),
                                     EncodeJpeg(Smooth(19, 23, 1), 80)};
  for (const char* hex : {kPalette, kGrey16WithAlpha, kOneBit, kTransparent, kInterlaced}) {
    corpus.push_back(absl::HexStringToBytes(hex));
  }
  DecodeLimits limits;
  limits.max_pixels = 1 << 16;
  Image decoded;
  int refused = 0;
  for (uint64_t round = 0; round < 6000; ++round) {
    std::string file = corpus[round % corpus.size()];
    const uint64_t changes = 1 + RandomBelow(7, round * 64, 4);
    for (uint64_t k = 0; k < changes; ++k) {
      const uint64_t at = RandomBelow(7, round * 64 + 2 * k + 1, file.size());
      file[at] = static_cast<char>(RandomBits(7, round * 64 + 2 * k + 2));
    }
    if (round % 5 == 0) file.resize(RandomBelow(7, round * 64 + 60, file.size()));
    const absl::Status status = DecodeImage(file, limits, &decoded);
    if (!status.ok()) {
      ++refused;
      continue;
    }
    ASSERT_EQ(decoded.pixels.size(), static_cast<size_t>(decoded.size.num_elements()));
  }
  EXPECT_GT(refused, 1000);
}

}  // namespace
}  // namespace shoal
