#include "tools/make_image_folder/image_folder_writer.h"

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "ml/data/data_defaults.h"
#include "ml/data/dataset_factory.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// Every image that was in the IDX files is in the folder, bit by bit, with its class.
TEST(ImageFolderWriterTest, TheFolderIsTheSameDataSet) {
  constexpr int64_t kTrain = 300, kTest = 100;
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const std::string root = absl::StrCat(::testing::TempDir(), "/written");
  ASSERT_OK(RemoveTree(*files, root));
  for (const bool is_train : {true, false}) {
    const std::string prefix =
        absl::StrCat(kDefaultDataDirectory, "/", is_train ? "train" : "t10k");
    ImageFolderWriterOptions options;
    options.images_path = prefix + "-images-idx3-ubyte.gz";
    options.labels_path = prefix + "-labels-idx1-ubyte.gz";
    options.directory = JoinPath(root, is_train ? "train" : "test");
    options.max_examples = is_train ? kTrain : kTest;
    EXPECT_THAT(WriteImageFolder(*files, options), IsOkAndHolds(options.max_examples));
  }
  v1::DataConfig config;
  config.set_test_examples(kTest);
  ASSERT_OK_AND_ASSIGN(const auto idx, MakeDataset(config, DataSplit::kTest, 1));
  config.set_directory(root);
  ASSERT_OK_AND_ASSIGN(const auto folder, MakeDataset(config, DataSplit::kTest, 1));
  ASSERT_EQ(folder->size(), kTest);
  EXPECT_EQ(folder->num_classes(), 10);
  std::multiset<std::vector<float>> of_idx, of_folder;
  for (int64_t i = 0; i < kTest; ++i) {
    std::vector<float> image(785);
    int32_t label = 0;
    ASSERT_OK(idx->FillBatch(0, {i}, {image.data(), &label}));
    image[784] = static_cast<float>(label);
    of_idx.insert(image);
    ASSERT_OK(folder->FillBatch(0, {i}, {image.data(), &label}));
    image[784] = static_cast<float>(label);
    of_folder.insert(image);
  }
  EXPECT_EQ(of_idx, of_folder);
}

TEST(ImageFolderWriterTest, AMissingFileIsNamed) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ImageFolderWriterOptions options;
  options.images_path = "/nowhere/images";
  EXPECT_THAT(WriteImageFolder(*files, options),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/images")));
}

}  // namespace
}  // namespace shoal
