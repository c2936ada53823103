// Tests the names by which a format and its splits are found; the files are empty.
// dataset_factory_test.cc has files with examples, and tests the errors and hints.
#include "ml/data/data_format.h"

#include <errno.h>
#include <sys/syscall.h>

#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/failing_call.h"
#include "base/file_system.h"
#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Config = v1::DataConfig;

class DataFormatTest : public ::testing::Test {
 protected:
  DataFormatTest() {
    EXPECT_OK(RemoveTree(*files_, root_));
    EXPECT_OK(files_->MakeDirectory(root_));
    config_.set_directory(root_);
  }

  void Write(const std::string& name) {
    const std::string path = JoinPath(root_, name);
    ASSERT_OK(files_->MakeDirectory(ParentDirectory(path)));
    ASSERT_OK(WriteAtomically(*files_, path, ""));
  }

  // Returns the format of a directory that has only this file.
  Config::Format FormatOf(const std::string& name) {
    EXPECT_OK(RemoveTree(*files_, root_));
    Write(name);
    const auto format = DetectDataFormat(root_);
    EXPECT_OK(format.status()) << name;
    return format.value_or(Config::FORMAT_UNSPECIFIED);
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "/data_format_",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
  Config config_;
};

TEST_F(DataFormatTest, EveryFormatIsDetectedFromOneName) {
  EXPECT_EQ(FormatOf("train/cat/1.png"), Config::FORMAT_IMAGE_FOLDER);
  EXPECT_EQ(FormatOf("train-images-idx3-ubyte"), Config::FORMAT_IDX);
  EXPECT_EQ(FormatOf("train-images-idx3-ubyte.gz"), Config::FORMAT_IDX);
  EXPECT_EQ(FormatOf("data_batch_1.bin"), Config::FORMAT_CIFAR10);
  EXPECT_EQ(FormatOf("train.bin"), Config::FORMAT_CIFAR100);
  EXPECT_EQ(FormatOf("train.csv"), Config::FORMAT_CSV);
  EXPECT_EQ(FormatOf("train.csv.zst"), Config::FORMAT_CSV);
  EXPECT_EQ(FormatOf("x_train.npy"), Config::FORMAT_NPY);
  EXPECT_EQ(FormatOf("y_train.npy"), Config::FORMAT_NPY);
  EXPECT_EQ(FormatOf("train.tsv.gz"), Config::FORMAT_CRITEO);
  EXPECT_EQ(FormatOf("train.tfrecord"), Config::FORMAT_TFRECORD);
  EXPECT_EQ(FormatOf("train-00000-of-00010"), Config::FORMAT_TFRECORD);
}

TEST_F(DataFormatTest, ADirectoryWithTwoFormatsIsAmbiguousUntilTheFormatIsNamed) {
  Write("train.csv");
  Write("train.bin");
  const absl::Status status = DetectDataFormat(root_).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(status.message(), HasSubstr("several formats (cifar100, csv)"));
  EXPECT_OK(CheckHoldsFormat(Config::FORMAT_CSV, config_));
  EXPECT_OK(CheckHoldsFormat(Config::FORMAT_CIFAR100, config_));
  EXPECT_TRUE(absl::IsFailedPrecondition(CheckHoldsFormat(Config::FORMAT_NPY, config_)));
}

TEST_F(DataFormatTest, TheRecordsOfASplitAreSortedAndTakeNoOtherFiles) {
  for (const char* name : {"train-00001-of-00002", "train-00000-of-00002", "train.tfrecord.gz",
                           "training.txt", "test.tfrecord"}) {
    Write(name);
  }
  const auto paths = TfRecordPaths(root_, "train");
  ASSERT_OK(paths.status());
  EXPECT_THAT(*paths, ElementsAre(JoinPath(root_, "train-00000-of-00002"),
                                  JoinPath(root_, "train-00001-of-00002"),
                                  JoinPath(root_, "train.tfrecord.gz")));
  EXPECT_TRUE(absl::IsNotFound(TfRecordPaths(root_, "dev").status()));
}

TEST_F(DataFormatTest, ATextFileMayBeCompressedButIsThereOnce) {
  EXPECT_TRUE(absl::IsNotFound(TextPath(root_, "train.csv").status()));
  Write("train.csv.gz");
  EXPECT_EQ(TextPath(root_, "train.csv").value_or(""), JoinPath(root_, "train.csv.gz"));
  Write("train.csv");
  EXPECT_TRUE(absl::IsFailedPrecondition(TextPath(root_, "train.csv").status()));
  RunWithFailingCall(SYS_newfstatat, EIO, [&] {
    EXPECT_TRUE(absl::IsUnavailable(TextPath(root_, "train.csv").status())) << "it may be there";
  });
  EXPECT_TRUE(IsTextName("/a/new.csv.zst", ".csv"));
  EXPECT_FALSE(IsTextName("/a/new.csv.bz2", ".csv"));
}

TEST_F(DataFormatTest, IdsInArraysNeedNoNumbersBesideThem) {
  config_.add_ids()->set_column("item");
  Write("y_train.npy");
  Write("item_train.npy");
  EXPECT_FALSE(HasNpyInputs(root_, "train").value());
  Write("y_test.npy");
  EXPECT_TRUE(absl::IsFailedPrecondition(FindTestSplit(Config::FORMAT_NPY, config_)));
  Write("item_test.npy");
  EXPECT_OK(FindTestSplit(Config::FORMAT_NPY, config_));
  Write("x_train.npy");
  EXPECT_TRUE(HasNpyInputs(root_, "train").value());
  EXPECT_THAT(FindTestSplit(Config::FORMAT_NPY, config_).message(), HasSubstr("x_test.npy"));
  RunWithFailingCall(SYS_newfstatat, ESTALE, [this] {
    EXPECT_TRUE(absl::IsUnavailable(HasNpyInputs(root_, "train").status())) << "it may be there";
  });
}

TEST_F(DataFormatTest, AFieldThatNoReaderOfTheFormatUsesIsRefused) {
  config_.mutable_csv()->set_label("kind");
  EXPECT_OK(CheckDataFields(Config::FORMAT_CSV, config_));
  const absl::Status status = CheckDataFields(Config::FORMAT_NPY, config_);
  EXPECT_TRUE(absl::IsInvalidArgument(status));
  EXPECT_EQ(status.message(),
            "data.csv.label: is for the format csv only, and the data are npy; drop it");
}

}  // namespace
}  // namespace shoal
