#include "ml/data/image_folder.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "ml/data/image_encoder_testing.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Image Flat(int64_t height, int64_t width, int64_t channels, uint8_t value) {
  const ImageSize size = {height, width, channels};
  return {size, std::vector<uint8_t>(static_cast<size_t>(size.num_elements()), value)};
}

class ImageFolderTest : public ::testing::Test {
 protected:
  ImageFolderTest() {
    EXPECT_OK(RemoveTree(*files_, root_));
    Write("train/cat/a.png", EncodePng(Flat(2, 2, 1, 51)));
    Write("train/cat/b.PNG", EncodePng(Flat(2, 2, 1, 102)));
    Write("train/dog/a.jpg", EncodeJpeg(Flat(2, 2, 1, 204), 100));
    Write("train/.hidden/a.png", "");
    Write("train/dog/notes.txt", "not an image");
    Write("train/dog/.DS_Store", "neither");
    options_.directory = root_ + "/train";
  }

  void Write(const std::string& name, const std::string& bytes) {
    const std::string path = JoinPath(root_, name);
    ASSERT_OK(files_->MakeDirectory(ParentDirectory(path)));
    ASSERT_OK(WriteAtomically(*files_, path, bytes));
  }

  // The first pixel and the label of every example.
  std::vector<float> FirstPixels(const Dataset& dataset) {
    std::vector<float> pixels(
        static_cast<size_t>(dataset.fields()[0].example.shape.num_elements()));
    std::vector<float> firsts;
    int32_t label = 0;
    for (int64_t i = 0; i < dataset.size(); ++i) {
      EXPECT_OK(dataset.FillBatch(0, {i}, {pixels.data(), &label}));
      firsts.push_back(pixels[0]);
      labels_.push_back(label);
    }
    return firsts;
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "/images_",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
  ImageFolderOptions options_;
  std::vector<int32_t> labels_;
};

TEST_F(ImageFolderTest, ClassesAreTheSortedFolderNames) {
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImageFolder(options_));
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->num_classes(), 2);
  EXPECT_EQ(dataset->fields()[0].example.ToString(), "float32[1,2,2]");
  EXPECT_THAT(FirstPixels(*dataset), ElementsAre(0.2f, 0.4f, 0.8f));
  EXPECT_THAT(labels_, ElementsAre(0, 0, 1));
}

TEST_F(ImageFolderTest, ImagesAreResizedAndConvertedWhereAskedFor) {
  options_.image = {4, 6, 3};
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImageFolder(options_));
  EXPECT_EQ(dataset->fields()[0].example.ToString(), "float32[3,4,6]");
  EXPECT_NEAR(FirstPixels(*dataset)[2], 0.8f, 1e-6f);
}

TEST_F(ImageFolderTest, FewerExamplesAreSpreadOverTheClasses) {
  options_.max_examples = 2;
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImageFolder(options_));
  FirstPixels(*dataset);
  EXPECT_THAT(labels_, ElementsAre(0, 0));
  Write("train/dog/b.png", EncodePng(Flat(2, 2, 1, 1)));
  labels_.clear();
  ASSERT_OK_AND_ASSIGN(const auto even, OpenImageFolder(options_));
  FirstPixels(*even);
  EXPECT_THAT(labels_, ElementsAre(0, 1));
}

TEST_F(ImageFolderTest, TheTestSplitHasTheClassesOfTheTrainingSplit) {
  Write("test/dog/x.png", EncodePng(Flat(2, 2, 1, 3)));
  options_.class_directory = options_.directory;
  options_.directory = root_ + "/test";
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImageFolder(options_));
  EXPECT_EQ(dataset->num_classes(), 2);
  FirstPixels(*dataset);
  EXPECT_THAT(labels_, ElementsAre(1));
  Write("test/bird/x.png", EncodePng(Flat(2, 2, 1, 3)));
  EXPECT_THAT(OpenImageFolder(options_), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                  HasSubstr("has no class \"bird\"; add it")));
}

TEST_F(ImageFolderTest, AClassWithoutImagesIsNamed) {
  Write("train/eel/readme.md", "");
  EXPECT_THAT(OpenImageFolder(options_),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("train/eel: folder without images; add")));
}

TEST_F(ImageFolderTest, AFolderWithoutClassesIsNamed) {
  options_.directory = root_ + "/train/cat";
  EXPECT_THAT(OpenImageFolder(options_), StatusIs(absl::StatusCode::kFailedPrecondition,
                                                  HasSubstr("train/cat: has no class folders")));
  options_.directory = root_ + "/nowhere";
  EXPECT_THAT(OpenImageFolder(options_),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("/nowhere"), HasSubstr("check data.directory"))));
}

TEST_F(ImageFolderTest, OtherKindsOfImagesAreNamed) {
  Write("train/cat/c.gif", "GIF89a");
  EXPECT_THAT(OpenImageFolder(options_),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("cat/c.gif: neither PNG nor JPEG")));
}

TEST_F(ImageFolderTest, AnUnreadableImageIsNamedWhenItIsItsTurn) {
  Write("train/cat/b.PNG", EncodePng(Flat(2, 2, 1, 102)).substr(0, 40));
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImageFolder(options_));
  std::vector<float> pixels(8);
  int32_t labels[2];
  EXPECT_THAT(dataset->FillBatch(0, {0, 1}, {pixels.data(), labels}),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("train/cat/b.PNG: unreadable image (PNG: it is truncated"),
                             HasSubstr("replace or remove"))));
}

TEST_F(ImageFolderTest, OtherSizesAndChannelsNeedAnOption) {
  Write("train/dog/a.jpg", EncodeJpeg(Flat(2, 2, 3, 204), 100));
  ASSERT_OK_AND_ASSIGN(const auto mixed, OpenImageFolder(options_));
  std::vector<float> pixels(12);
  int32_t label = 0;
  EXPECT_THAT(mixed->FillBatch(0, {2}, {pixels.data(), &label}),
              StatusIs(absl::StatusCode::kDataLoss,
                       AllOf(HasSubstr("dog/a.jpg: has 3 channels, the first image has 1 channel;"),
                             HasSubstr("data.image.channels"))));
  options_.image.channels = 1;
  ASSERT_OK_AND_ASSIGN(const auto grey, OpenImageFolder(options_));
  EXPECT_OK(grey->FillBatch(0, {2}, {pixels.data(), &label}));
  Write("train/dog/a.jpg", EncodeJpeg(Flat(3, 2, 1, 204), 100));
  EXPECT_THAT(grey->FillBatch(0, {2}, {pixels.data(), &label}),
              StatusIs(absl::StatusCode::kDataLoss,
                       HasSubstr("dog/a.jpg: is 2 x 3 pixels, the first image is 2 x 2; set")));
}

TEST_F(ImageFolderTest, AFileThatVanishesInTrainingIsNamed) {
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenImageFolder(options_));
  ASSERT_OK(files_->Remove(root_ + "/train/dog/a.jpg"));
  std::vector<float> pixels(4);
  int32_t label = 0;
  EXPECT_THAT(dataset->FillBatch(0, {2}, {pixels.data(), &label}),
              StatusIs(absl::StatusCode::kNotFound,
                       AllOf(HasSubstr("train/dog/a.jpg"), HasSubstr("put it back and resume"))));
}

TEST_F(ImageFolderTest, TheFingerprintIsOfNamesSizesAndContent) {
  const uint64_t first = OpenImageFolder(options_).value()->fingerprint();
  EXPECT_EQ(OpenImageFolder(options_).value()->fingerprint(), first);
  Write("train/cat/a.png", EncodePng(Flat(2, 2, 1, 52)));
  EXPECT_NE(OpenImageFolder(options_).value()->fingerprint(), first);
  Write("train/cat/a.png", EncodePng(Flat(2, 2, 1, 51)));
  EXPECT_EQ(OpenImageFolder(options_).value()->fingerprint(), first);
  Write("train/cat/c.png", EncodePng(Flat(2, 2, 1, 51)));
  EXPECT_NE(OpenImageFolder(options_).value()->fingerprint(), first);
}

TEST_F(ImageFolderTest, ClassesAndExamplesHaveNames) {
  const auto dataset = OpenImageFolder(options_).value();
  EXPECT_THAT(dataset->class_names(), ElementsAre("cat", "dog"));
  EXPECT_EQ(dataset->example_name(2), root_ + "/train/dog/a.jpg");
}

TEST_F(ImageFolderTest, FilesWithoutLabelsAreOneOrThoseOfAFolder) {
  ImageTargetOptions grey;
  grey.channels = 1;
  const auto one = OpenImageFiles(root_ + "/train/cat/b.PNG", grey).value();
  EXPECT_THAT(FirstPixels(*one), ElementsAre(0.4f));
  EXPECT_EQ(one->example_name(0), root_ + "/train/cat/b.PNG");
  EXPECT_TRUE(one->class_names().empty());
  EXPECT_THAT(FirstPixels(*OpenImageFiles(root_ + "/train/cat", grey).value()),
              ElementsAre(0.2f, 0.4f));
  // A folder of class folders: the images of all classes.
  EXPECT_EQ(OpenImageFiles(root_ + "/train", grey).value()->example_name(0),
            root_ + "/train/cat/a.png");
  EXPECT_THAT(std::string(OpenImageFiles(root_, grey).status().message()),
              HasSubstr("has no PNG or JPEG images, nor do the folders in it"));
  EXPECT_EQ(OpenImageFiles(root_ + "/no.png", grey).status().code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace shoal
