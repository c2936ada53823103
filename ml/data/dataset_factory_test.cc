#include "ml/data/dataset_factory.h"

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "ml/data/data_format.h"
#include "ml/data/data_rules.h"
#include "ml/data/image_encoder_testing.h"
#include "ml/data/records/tf_example.pb.h"
#include "ml/data/records/tf_record_file.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

TEST(DatasetFactoryTest, TheDefaultIsFashionMnist) {
  v1::DataConfig config;
  config.set_test_examples(1000);
  EXPECT_EQ(MakeDataset(config, DataSplit::kTest, 1).value()->size(), 1000);
}

TEST(DatasetFactoryTest, AMissingDirectoryIsNamed) {
  v1::DataConfig config;
  config.set_directory("/nowhere");
  for (const v1::DataConfig::Format format :
       {v1::DataConfig::FORMAT_UNSPECIFIED, v1::DataConfig::FORMAT_IDX,
        v1::DataConfig::FORMAT_IMAGE_FOLDER, v1::DataConfig::FORMAT_CSV}) {
    config.set_format(format);
    EXPECT_EQ(
        MakeDataset(config, DataSplit::kTrain, 1).status(),
        absl::NotFoundError("data.directory: there is no directory /nowhere; name that of the "
                            "data set with --data_dir=DIR"));
  }
}

TEST(DatasetFactoryTest, AFileInPlaceOfTheDirectoryIsNamed) {
  v1::DataConfig config;
  config.set_directory("/etc/passwd");
  config.set_format(v1::DataConfig::FORMAT_CSV);
  EXPECT_EQ(MakeDataset(config, DataSplit::kTrain, 1).status(),
            absl::FailedPreconditionError(
                "data.directory: /etc/passwd is a file; name the directory that holds the data "
                "with --data_dir=DIR"));
}

TEST(DatasetFactoryTest, AFieldOfAnotherFormatIsRefused) {
  v1::DataConfig config;
  config.mutable_csv()->set_no_header(true);
  EXPECT_EQ(MakeDataset(config, DataSplit::kTest, 1).status(),
            absl::InvalidArgumentError("data.csv.no_header: is for the format csv only, and the "
                                       "data are idx; drop it"));
  config.clear_csv();
  config.set_features(7);
  EXPECT_THAT(std::string(MakeDataset(config, DataSplit::kTest, 1).status().message()),
              HasSubstr("data.features: is for the format synthetic_regression and "
                        "synthetic_classification only"));
  config.set_format(v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION);
  EXPECT_TRUE(MakeDataset(config, DataSplit::kTest, 1).ok());
}

TEST(DatasetFactoryTest, ClicksNeedNoDirectory) {
  v1::DataConfig config;
  config.set_format(v1::DataConfig::FORMAT_CLICKS_SYNTHETIC);
  const auto train = MakeDataset(config, DataSplit::kTrain, 5).value();
  const auto test = MakeDataset(config, DataSplit::kTest, 5).value();
  EXPECT_EQ(train->size(), 1000000);
  EXPECT_EQ(test->size(), 100000);
  EXPECT_NE(train->fingerprint(), test->fingerprint());
  EXPECT_TRUE(HasTestSplit(config).value());
  config.mutable_csv()->set_no_header(true);
  EXPECT_EQ(MakeDataset(config, DataSplit::kTest, 1).status(),
            absl::InvalidArgumentError("data.csv.no_header: is for the format csv only, and the "
                                       "data are clicks_synthetic; drop it"));
}

TEST(DatasetFactoryTest, SyntheticSplitsShareTheirClassesButNoExamples) {
  v1::DataConfig config;
  config.set_format(v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION);
  config.set_train_examples(20);
  config.set_test_examples(10);
  config.set_features(4);
  const auto train = MakeDataset(config, DataSplit::kTrain, 5).value();
  const auto test = MakeDataset(config, DataSplit::kTest, 5).value();
  EXPECT_EQ(train->size(), 20);
  EXPECT_EQ(test->size(), 10);
  float a[4], b[4];
  int32_t label = 0;
  ASSERT_TRUE(train->FillBatch(0, {3}, {a, &label}).ok());
  EXPECT_EQ(label, 3);
  ASSERT_TRUE(test->FillBatch(0, {3}, {b, &label}).ok());
  EXPECT_EQ(label, 3);
  for (int j = 0; j < 4; ++j) {
    EXPECT_NE(a[j], b[j]);
    EXPECT_NEAR(a[j], b[j], 1);
  }
}

TEST(DatasetFactoryTest, RegressionHasTargets) {
  v1::DataConfig config;
  config.set_format(v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION);
  config.set_train_examples(5);
  config.set_target_columns(1);
  const auto train = MakeDataset(config, DataSplit::kTrain, 5).value();
  EXPECT_EQ(train->fields()[0].example.ToString(), "float32[600]");
  EXPECT_EQ(train->fields()[1].example.ToString(), "float32[1]");
}

// A directory with the tiniest data set of each format.
class DataDirectoryTest : public ::testing::Test {
 protected:
  DataDirectoryTest() {
    EXPECT_OK(RemoveTree(*files_, root_));
    config_.set_directory(root_);
  }

  void Write(const std::string& name, const std::string& bytes) {
    const std::string path = JoinPath(root_, name);
    ASSERT_OK(files_->MakeDirectory(ParentDirectory(path)));
    ASSERT_OK(WriteAtomically(*files_, path, bytes));
  }

  void WriteImages() {
    const std::string png = EncodePng({{4, 4, 1}, std::vector<uint8_t>(16, 100)});
    for (const char* split : {"train", "test"}) {
      for (const char* name : {"a", "b", "c"}) Write(absl::StrCat(split, "/", name, "/1.png"), png);
    }
  }

  // "EXAMPLES INPUT LABEL" of a split, or the error.
  std::string Describe(DataSplit split) {
    const auto dataset = MakeDataset(config_, split, 1, rules_);
    if (!dataset.ok()) return std::string(dataset.status().message());
    const auto& fields = (*dataset)->fields();
    return absl::StrCat((*dataset)->size(), " ", fields[0].example.ToString(), " ", fields[1].name);
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  const std::string root_ =
      absl::StrCat(::testing::TempDir(), "/data_",
                   ::testing::UnitTest::GetInstance()->current_test_info()->name());
  v1::DataConfig config_;
  DataRules rules_;
};

TEST_F(DataDirectoryTest, ImageFoldersAreFound) {
  WriteImages();
  EXPECT_EQ(Describe(DataSplit::kTrain), "3 float32[1,4,4] label");
  EXPECT_EQ(Describe(DataSplit::kTest), "3 float32[1,4,4] label");
  const auto dataset = MakeDataset(config_, DataSplit::kTrain, 1).value();
  EXPECT_EQ(NumClasses(config_, *dataset), 3);
  EXPECT_GE(DecodeThreads(config_, *dataset), 1);
  config_.set_decode_threads(5);
  EXPECT_EQ(DecodeThreads(config_, *dataset), 5);
  config_.set_classes(7);
  EXPECT_EQ(NumClasses(config_, *dataset), 7);
  config_.set_classes(2);
  EXPECT_THAT(Describe(DataSplit::kTrain), HasSubstr("data.classes: is 2, but"));
}

TEST_F(DataDirectoryTest, ClassNamesAreKnownThroughAugmentation) {
  WriteImages();
  config_.mutable_augment()->set_flip(true);
  const auto dataset = MakeDataset(config_, DataSplit::kTrain, 1).value();
  EXPECT_THAT(dataset->class_names(), ::testing::ElementsAre("a", "b", "c"));
  EXPECT_EQ(dataset->example_name(1), root_ + "/train/b/1.png");
  const auto input = MakeInputs(config_, root_ + "/test/c/1.png").value();
  EXPECT_EQ(input->size(), 1);
  EXPECT_EQ(input->example_name(0), root_ + "/test/c/1.png");
}

TEST_F(DataDirectoryTest, ATestSplitMayBeMissingButNotHalfOfIt) {
  Write("train.csv", "a,label\n1,0\n");
  EXPECT_FALSE(HasTestSplit(config_).value());
  EXPECT_EQ(Describe(DataSplit::kTrain), "1 float32[1] label");
  EXPECT_EQ(Describe(DataSplit::kTest),
            "data.directory: " + root_ +
                " has no test split, which would be test.csv; training and `shoal predict "
                "--input=FILE` need none, for the rest add it");
  config_.set_test_examples(10);  // A user who asks for them has the wrong directory.
  EXPECT_EQ(HasTestSplit(config_).status().code(), absl::StatusCode::kNotFound);
  config_.clear_test_examples();
  Write("test.csv", "a,label\n1,0\n");
  EXPECT_TRUE(HasTestSplit(config_).value());

  config_.set_format(v1::DataConfig::FORMAT_NPY);
  Write("x_train.npy", "");
  EXPECT_FALSE(HasTestSplit(config_).value());
  Write("y_test.npy", "");
  EXPECT_EQ(HasTestSplit(config_).status(),
            absl::FailedPreconditionError(
                "data.directory: " + root_ +
                " has y_test.npy without x_test.npy, so its test split is incomplete; add that, or "
                "remove y_test.npy to train without a test split"));
  Write("x_test.npy", "");
  EXPECT_TRUE(HasTestSplit(config_).value());

  config_.set_format(v1::DataConfig::FORMAT_IDX);
  Write("train-images-idx3-ubyte.gz", "");
  EXPECT_FALSE(HasTestSplit(config_).value());
  Write("t10k-labels-idx1-ubyte.gz", "");
  EXPECT_THAT(HasTestSplit(config_).status().message(),
              HasSubstr("has t10k-labels-idx1-ubyte without t10k-images-idx3-ubyte"));
  Write("t10k-images-idx3-ubyte", "");
  EXPECT_TRUE(HasTestSplit(config_).value());

  config_.set_format(v1::DataConfig::FORMAT_TFRECORD);
  Write("train.tfrecord", "");
  EXPECT_FALSE(HasTestSplit(config_).value());
  config_.set_format(v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION);
  EXPECT_TRUE(HasTestSplit(config_).value());
}

TEST_F(DataDirectoryTest, ImagesAreResizedAndOnlyTrainingIsRandom) {
  WriteImages();
  config_.mutable_image()->set_height(6);
  config_.mutable_image()->set_width(6);
  config_.mutable_image()->set_channels(3);
  config_.mutable_image()->set_crop(5);
  config_.mutable_augment()->set_pad(2);
  EXPECT_EQ(Describe(DataSplit::kTrain), "3 float32[3,5,5] label");
  std::vector<float> once(75), again(75);
  int32_t label = 0;
  for (const DataSplit split : {DataSplit::kTrain, DataSplit::kTest}) {
    const auto dataset = MakeDataset(config_, split, 1).value();
    int differing = 0;
    for (uint32_t epoch = 1; epoch < 20; ++epoch) {
      ASSERT_OK(dataset->FillBatch(0, {1}, {once.data(), &label}));
      ASSERT_OK(dataset->FillBatch(epoch, {1}, {again.data(), &label}));
      differing += once != again ? 1 : 0;
    }
    EXPECT_EQ(differing > 0, split == DataSplit::kTrain);
  }
}

TEST_F(DataDirectoryTest, CifarIsFound) {
  for (const char* name : {"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
                           "data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"}) {
    Write(name, std::string(3073, '\1'));
  }
  EXPECT_EQ(Describe(DataSplit::kTrain), "5 float32[3,32,32] label");
  EXPECT_EQ(Describe(DataSplit::kTest), "1 float32[3,32,32] label");
  Write("train.bin", std::string(3074, '\1'));
  EXPECT_THAT(Describe(DataSplit::kTrain),
              HasSubstr("holds data of several formats (cifar10, cifar100); name one, as in --set "
                        "data.format=cifar10"));
  config_.set_format(v1::DataConfig::FORMAT_CIFAR100);
  EXPECT_EQ(Describe(DataSplit::kTrain), "1 float32[3,32,32] label");
  EXPECT_EQ(NumClasses(config_, *MakeDataset(config_, DataSplit::kTrain, 1).value()), 100);
}

TEST_F(DataDirectoryTest, TablesAreFound) {
  Write("train.csv", "a,b,c\n1,2,3\n4,5,6\n");
  Write("test.csv", "a,b,c\n1,2,3\n");
  EXPECT_EQ(Describe(DataSplit::kTrain), "2 float32[2] label");
  config_.mutable_csv()->set_regression(true);
  EXPECT_EQ(Describe(DataSplit::kTest), "1 float32[2] target");
  config_.mutable_augment()->set_flip(true);
  EXPECT_THAT(Describe(DataSplit::kTrain), HasSubstr("are for images, but inputs are float32[2]"));
}

TEST_F(DataDirectoryTest, EmptyNumbersOfTablesHaveTheValueOfTheRunFile) {
  Write("train.csv", "a,label\n1,0\n,1\n");
  EXPECT_THAT(Describe(DataSplit::kTrain), HasSubstr("train.csv:3: column \"a\" is empty"));
  config_.mutable_csv()->set_empty_number(0);
  EXPECT_EQ(Describe(DataSplit::kTrain), "2 float32[1] label");
  Write("new.csv", "b,a\n1,\n");
  EXPECT_OK(MakeInputs(config_, root_ + "/new.csv").status());
  config_.mutable_csv()->set_empty_number(1e40);
  EXPECT_THAT(
      Describe(DataSplit::kTrain),
      HasSubstr("data.csv.empty_number: is 1e+40, which is not a finite number of 32 bits"));
  config_.set_format(v1::DataConfig::FORMAT_CLICKS_SYNTHETIC);
  EXPECT_THAT(Describe(DataSplit::kTrain),
              HasSubstr("data.csv.empty_number: is for the format csv only, and the data are"));
}

TEST_F(DataDirectoryTest, ArraysAreFound) {
  const std::string header = "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}\n";
  const std::string labels = std::string("\x93NUMPY\x01\x00\x38\x00", 10) + header + "\x01\x02";
  ASSERT_EQ(header.size(), 0x38u);
  const std::string inputs = "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 1)}\n";
  Write("x_train.npy",
        std::string("\x93NUMPY\x01\x00\x3a\x00", 10) + inputs + std::string(8, '\0'));
  ASSERT_EQ(inputs.size(), 0x3au);
  Write("y_train.npy", labels);
  EXPECT_EQ(Describe(DataSplit::kTrain), "2 float32[1] label");
  EXPECT_THAT(Describe(DataSplit::kTest), HasSubstr("x_test.npy"));
}

TEST_F(DataDirectoryTest, ClassesTxtNamesTheClassesOfOtherFormats) {
  Write("train.csv", "a,label\n1,0\n2,1\n");
  Write("classes.txt", "small\r\nlarge thing\n\n");
  auto dataset = MakeDataset(config_, DataSplit::kTrain, 1).value();
  EXPECT_THAT(dataset->class_names(), ::testing::ElementsAre("small", "large thing"));
  EXPECT_EQ(NumClasses(config_, *dataset), 2);
  EXPECT_EQ(Describe(DataSplit::kTrain), "2 float32[1] label");
  config_.set_classes(3);
  EXPECT_THAT(Describe(DataSplit::kTrain), HasSubstr("data.classes: is 3, but"));
  config_.set_classes(0);

  Write("train.csv", "a,label\n1,0\n2,2\n");
  EXPECT_THAT(Describe(DataSplit::kTrain), HasSubstr("below the number of classes, 2"));
  Write("classes.txt", "small\n\nlarge\n");
  EXPECT_THAT(Describe(DataSplit::kTrain), HasSubstr("classes.txt:2: is empty; give each class"));
  Write("classes.txt", "a\na\n");
  EXPECT_THAT(Describe(DataSplit::kTrain), HasSubstr("classes.txt:2: a is there twice"));

  Write("classes.txt", "a\nb\nc\n");
  Write("train.csv", "a,label\n1,0.5\n2,2\n");
  config_.mutable_csv()->set_regression(true);
  dataset = MakeDataset(config_, DataSplit::kTrain, 1).value();
  EXPECT_TRUE(dataset->class_names().empty());
}

TEST_F(DataDirectoryTest, ABinaryLossHasTwoClasses) {
  rules_.binary_loss = "hinge";
  for (const uint32_t classes : {0u, 2u, 10u}) {
    config_.set_classes(classes);
    Write("train.csv", "a,label\n1,0\n2,1\n");
    EXPECT_EQ(Describe(DataSplit::kTrain), "2 float32[1] label");
    Write("train.csv", "a,label\n1,0\n2,3\n");
    EXPECT_THAT(Describe(DataSplit::kTrain),
                HasSubstr("train.csv:3: label in column \"label\" is 3: "
                          "it must be 0 or 1, because model.loss"));
  }
  config_.set_classes(0);
  Write("train.csv", "a,label\n1,no\n2,yes\n");
  EXPECT_EQ(Describe(DataSplit::kTrain), "2 float32[1] label");
  Write("train.csv", "a,label\n1,no\n2,yes\n3,perhaps\n");
  EXPECT_EQ(Describe(DataSplit::kTrain),
            absl::StrCat("model.loss: hinge is for the labels 0 and 1, but ", root_,
                         " has 3 classes; use sparse_softmax_cross_entropy, or remove the other "
                         "classes"));
  config_.set_format(v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION);
  EXPECT_EQ(Describe(DataSplit::kTrain),
            "model.loss: hinge is for the labels 0 and 1, but the synthetic data has 10 classes; "
            "use sparse_softmax_cross_entropy, or set data.classes to 2");
  config_.set_classes(2);
  EXPECT_EQ(Describe(DataSplit::kTrain), "10000 float32[600] label");
}

TEST_F(DataDirectoryTest, RecordsAreFound) {
  tf::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["x"].mutable_float_list()->add_value(1.5f);
  features["image/class/label"].mutable_int64_list()->add_value(1);
  const std::string record = FrameTfRecord(example.SerializeAsString());
  Write("train-00000-of-00002", record);
  Write("train-00001-of-00002", record + record);
  config_.mutable_tfrecord()->set_input("x");
  EXPECT_EQ(Describe(DataSplit::kTrain), "3 float32[1] label");
  EXPECT_THAT(Describe(DataSplit::kTest),
              HasSubstr("has no test split, which would be test*.tfrecord*"));
  Write("test.tfrecord", record);
  EXPECT_EQ(Describe(DataSplit::kTest), "1 float32[1] label");
}

TEST_F(DataDirectoryTest, DataOfAnotherFormatThanTheRunFileNamesAreAnError) {
  const struct {
    const char* format;
    const char* file;
    const char* held;
  } kCases[] = {{"idx", "train-images-idx3-ubyte.gz", "idx (*-ubyte)"},
                {"image_folder", "train/a/1.png", "image_folder (train/)"},
                {"cifar10", "data_batch_1.bin", "cifar10 (data_batch_1.bin)"},
                {"cifar100", "train.bin", "cifar100 (train.bin)"},
                {"csv", "train.csv", "csv (train.csv)"},
                {"npy", "x_train.npy", "npy (x_train.npy)"},
                {"tfrecord", "train-00000-of-00002", "tfrecord (train*.tfrecord*)"}};
  for (const auto& held : kCases) {
    ASSERT_OK(RemoveTree(*files_, root_));
    Write(held.file, "");
    for (const auto& wanted : kCases) {
      v1::DataConfig::Format format = v1::DataConfig::FORMAT_UNSPECIFIED;
      ASSERT_TRUE(v1::DataConfig::Format_Parse(
          absl::StrCat("FORMAT_", absl::AsciiStrToUpper(wanted.format)), &format));
      config_.set_format(format);
      if (wanted.format == held.format) {
        EXPECT_OK(CheckHoldsFormat(format, config_));
        continue;
      }
      EXPECT_EQ(Describe(DataSplit::kTrain),
                absl::StrCat("data.format: is ", wanted.format, ", but ", root_, " holds ",
                             held.held, "; set --data_format=", held.format, ", or name the ",
                             wanted.format, " data with --data_dir=DIR"));
    }
  }
}

TEST_F(DataDirectoryTest, ATestSplitAloneHasItsFormat) {
  Write("test.csv", "a,b\n1,2\n");
  Write("x_train.npy", "");
  config_.set_format(v1::DataConfig::FORMAT_CSV);
  EXPECT_EQ(Describe(DataSplit::kTest), "1 float32[1] label");
}

TEST_F(DataDirectoryTest, NamesThatAreNearlyRightGiveAHint) {
  const std::pair<const char*, std::string> kCases[] = {
      {"iris.csv", "; rename the table " + root_ + "/iris.csv to train.csv"},
      {"x.npy", "; rename arrays such as " + root_ + "/x.npy to x_train.npy and y_train.npy"},
      {"data_batch_1",
       "; " + root_ + "/data_batch_1 is of CIFAR's version for Python: take the binary version"},
      {"cat/1.jpg", "; " + root_ + "/cat holds images: move such folders into " + root_ + "/train"},
      {"1.jpg", "; move images such as " + root_ + "/1.jpg into " + root_ + "/train/CLASS/"},
      {"cifar-10-batches-bin/data_batch_1.bin",
       "; " + root_ + "/cifar-10-batches-bin holds cifar10: give --data_dir=" + root_ +
           "/cifar-10-batches-bin"},
      {"readme.txt", "; name one that does with --data_dir=DIR"}};
  for (const auto& [file, hint] : kCases) {
    ASSERT_OK(RemoveTree(*files_, root_));
    Write(file, "");
    config_.set_format(v1::DataConfig::FORMAT_UNSPECIFIED);
    EXPECT_THAT(Describe(DataSplit::kTrain), ::testing::EndsWith(hint));
    config_.set_format(v1::DataConfig::FORMAT_IDX);
    EXPECT_EQ(Describe(DataSplit::kTrain),
              absl::StrCat("data.directory: ", root_,
                           " holds no idx data, which data.format asks for; it wants "
                           "train-images-idx3-ubyte and train-labels-idx1-ubyte, or those with .gz",
                           hint));
  }
}

TEST_F(DataDirectoryTest, TheErrorOfADirectoryWithoutTheWantedFormatListsTheMissingFiles) {
  Write("readme.txt", "");
  config_.set_format(v1::DataConfig::FORMAT_IMAGE_FOLDER);
  EXPECT_EQ(Describe(DataSplit::kTrain),
            absl::StrCat("data.directory: ", root_,
                         " holds no image_folder data, which data.format asks for; it wants "
                         "train/<class>/*.png or *.jpg, and test/<class>/ for evaluations; name "
                         "one that does with --data_dir=DIR"));
}

TEST_F(DataDirectoryTest, ADirectoryWithoutDataIsAnErrorThatListsTheFormats) {
  Write("readme.txt", "");
  EXPECT_THAT(Describe(DataSplit::kTrain),
              HasSubstr("holds no data set: neither train/<class>/ with images nor"));
}

// A file of NumPy with two numbers of this type and size.
std::string TwoNumbers(const std::string& type, const std::string& shape,
                       const std::string& bytes) {
  const std::string header =
      absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': (", shape, ")}\n");
  return absl::StrCat(absl::string_view("\x93NUMPY\x01\x00", 8),
                      std::string(1, static_cast<char>(header.size())), std::string(1, '\0'),
                      header, bytes);
}

TEST_F(DataDirectoryTest, IdsInTablesAreFields) {
  Write("train.csv", "user,age,click\n17,0.5,1\n,1,0\n");
  config_.add_ids()->set_column("user");
  EXPECT_EQ(Describe(DataSplit::kTrain), "2 float32[1] label");
  config_.add_numbers("size");
  EXPECT_THAT(Describe(DataSplit::kTrain), HasSubstr("column of numbers \"size\" (data.numbers)"));
  config_.clear_numbers();
  config_.mutable_ids(0)->set_column("shop");
  EXPECT_THAT(Describe(DataSplit::kTrain),
              HasSubstr("column of ids \"shop\" (data.ids[0]) is not"));
  config_.mutable_ids(0)->set_separator("5");
  EXPECT_THAT(Describe(DataSplit::kTrain),
              HasSubstr("data.ids[0].separator: \"5\" must be a text"));
  config_.set_format(v1::DataConfig::FORMAT_CLICKS_SYNTHETIC);
  EXPECT_THAT(Describe(DataSplit::kTrain),
              HasSubstr("data.ids: is for the format csv and npy and tfrecord only, and the data"));
}

TEST_F(DataDirectoryTest, TablesMayBeCompressed) {
  Write("train.csv.gz", "a,b\n1,2\n");  // The first bytes say that it is plain.
  Write("test.csv.zst", "a,b\n1,2\n3,4\n");
  EXPECT_EQ(Describe(DataSplit::kTrain), "1 float32[1] label");
  EXPECT_EQ(Describe(DataSplit::kTest), "2 float32[1] label");
  Write("test.csv", "a,b\n1,2\n");
  EXPECT_THAT(Describe(DataSplit::kTest), HasSubstr("test.csv.zst are both there; remove one"));
  ASSERT_OK_AND_ASSIGN(const auto inputs, MakeInputs(config_, root_ + "/test.csv.zst"));
  EXPECT_EQ(inputs->fields()[0].example.ToString(), "float32[2]");
}

TEST_F(DataDirectoryTest, IdsInArraysAreFields) {
  const std::string labels = TwoNumbers("|u1", "2,", std::string("\x00\x01", 2));
  const std::string ids =
      TwoNumbers("<i4", "2,", std::string("\x05\x00\x00\x00\x07\x00\x00\x00", 8));
  Write("y_train.npy", labels);
  config_.add_ids()->set_column("user");
  EXPECT_THAT(Describe(DataSplit::kTrain), HasSubstr("user_train.npy"));
  Write("user_train.npy", ids);
  EXPECT_EQ(Describe(DataSplit::kTrain), "2 int32[] user");
  EXPECT_FALSE(HasTestSplit(config_).value());
  Write("y_test.npy", labels);
  EXPECT_THAT(HasTestSplit(config_).status().message(),
              HasSubstr("has y_test.npy without user_test.npy, so its test split is incomplete"));
  Write("user_test.npy", ids);
  EXPECT_TRUE(HasTestSplit(config_).value());
  EXPECT_EQ(Describe(DataSplit::kTest), "2 int32[] user");
  Write("x_train.npy", TwoNumbers("<f4", "2, 1", std::string(8, '\0')));
  EXPECT_THAT(HasTestSplit(config_).status().message(), HasSubstr("without x_test.npy"));
  EXPECT_EQ(Describe(DataSplit::kTrain), "2 float32[1] label");
  ASSERT_OK_AND_ASSIGN(const auto inputs, MakeInputs(config_, root_ + "/user_train.npy"));
  EXPECT_EQ(inputs->fields()[2].name, "user");
  EXPECT_THAT(MakeInputs(config_, root_ + "/other.npy").status().message(),
              HasSubstr("other.npy: the run's examples have ids in several arrays (data.ids); name "
                        "one of them, whose name must be x_NAME.npy, user_NAME.npy"));
}

TEST_F(DataDirectoryTest, IdsInRecordsAreFields) {
  tf::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["user"].mutable_int64_list()->add_value(17);
  features["age"].mutable_float_list()->add_value(0.5f);
  features["click"].mutable_int64_list()->add_value(1);
  Write("train.tfrecord", FrameTfRecord(example.SerializeAsString()));
  config_.mutable_tfrecord()->set_label("click");
  config_.add_ids()->set_column("user");
  EXPECT_EQ(Describe(DataSplit::kTrain), "1 int32[] user");
  config_.add_numbers("age");
  EXPECT_EQ(Describe(DataSplit::kTrain), "1 float32[1] label");
  ASSERT_OK_AND_ASSIGN(const auto inputs, MakeInputs(config_, root_ + "/train.tfrecord"));
  EXPECT_EQ(inputs->fields()[2].name, "user");
}

}  // namespace
}  // namespace shoal
