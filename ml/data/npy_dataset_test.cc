#include "ml/data/npy_dataset.h"

#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/random.h"
#include "base/status_matchers.h"
#include "ml/data/ragged_rows.h"
#include "ml/data/records/npy_file.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// A file as numpy.save writes it.
template <typename T>
std::string Npy(const std::string& type, const std::string& shape, const std::vector<T>& elements,
                const std::string& order = "False") {
  std::string header = absl::StrCat("{'descr': '", type, "', 'fortran_order': ", order,
                                    ", 'shape': (", shape, "), }");
  while ((10 + header.size()) % 64 != 63) header += ' ';
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += static_cast<char>(header.size() & 255);
  file += static_cast<char>(header.size() >> 8);
  file += header;
  file.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(T));
  return file;
}

class NpyDatasetTest : public ::testing::Test {
 protected:
  NpyDatasetTest() {
    const std::string prefix =
        absl::StrCat(::testing::TempDir(), "/npy_",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name());
    options_.inputs_path = prefix + "_x.npy";
    options_.labels_path = prefix + "_y.npy";
    Write(Npy<float>("<f4", "2, 3", {1, 2, 3, 4, 5, 6}), Npy<int64_t>("<i8", "2,", {7, 0}));
  }

  void Write(const std::string& inputs, const std::string& labels) {
    ASSERT_OK(WriteAtomically(*files_, options_.inputs_path, inputs));
    ASSERT_OK(WriteAtomically(*files_, options_.labels_path, labels));
  }

  // The inputs of all examples.
  std::vector<float> Inputs(const Dataset& dataset) {
    const int64_t per_example = dataset.fields()[0].example.shape.num_elements();
    std::vector<float> inputs(static_cast<size_t>(dataset.size() * per_example));
    std::vector<int64_t> all;
    for (int64_t i = 0; i < dataset.size(); ++i) all.push_back(i);
    labels_.resize(all.size() * dataset.fields()[1].example.bytes() / 4);
    EXPECT_OK(dataset.FillBatch(0, all, {inputs.data(), labels_.data()}));
    return inputs;
  }

  std::string Error() { return std::string(LoadNpyDataset(options_).status().message()); }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  NpyDatasetOptions options_;
  std::vector<int32_t> labels_;
};

TEST_F(NpyDatasetTest, FloatsAreInputsAndIntegersClasses) {
  ASSERT_OK_AND_ASSIGN(const auto dataset, LoadNpyDataset(options_));
  EXPECT_EQ(dataset->fields()[0].example.ToString(), "float32[3]");
  EXPECT_THAT(Inputs(*dataset), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(labels_, ElementsAre(7, 0));
  options_.max_examples = 1;
  EXPECT_EQ(LoadNpyDataset(options_).value()->size(), 1);
}

TEST_F(NpyDatasetTest, EveryTypeOfNumberIsRead) {
  Write(Npy<double>("<f8", "2, 1", {0.5, -2}), Npy<uint8_t>("|u1", "2,", {1, 2}));
  EXPECT_THAT(Inputs(*LoadNpyDataset(options_).value()), ElementsAre(0.5f, -2.0f));
  EXPECT_THAT(labels_, ElementsAre(1, 2));
  Write(Npy<double>("<f8", "2, 1", {0.5, -2}), Npy<int16_t>("<i2", "2,", {3, 4}));
  Inputs(*LoadNpyDataset(options_).value());
  EXPECT_THAT(labels_, ElementsAre(3, 4));
  Write(Npy<double>("<f8", "2, 1", {0.5, -2}), Npy<uint32_t>("<u4", "2,", {5, 6}));
  Inputs(*LoadNpyDataset(options_).value());
  EXPECT_THAT(labels_, ElementsAre(5, 6));
}

TEST_F(NpyDatasetTest, BytesAreImagesWithTheirChannelsBeforeOrAfter) {
  const std::string labels = Npy<int32_t>("<i4", "1,", {1});
  Write(Npy<uint8_t>("|u1", "1, 1, 2", {51, 255}), labels);
  ASSERT_OK_AND_ASSIGN(const auto grey, LoadNpyDataset(options_));
  EXPECT_EQ(grey->fields()[0].example.ToString(), "float32[1,1,2]");
  EXPECT_THAT(Inputs(*grey), ElementsAre(0.2f, 1.0f));
  Write(Npy<uint8_t>("|u1", "1, 1, 2, 3", {0, 51, 102, 153, 204, 255}), labels);
  ASSERT_OK_AND_ASSIGN(const auto last, LoadNpyDataset(options_));
  EXPECT_EQ(last->fields()[0].example.ToString(), "float32[3,1,2]");
  EXPECT_THAT(Inputs(*last), ElementsAre(0.0f, 0.6f, 0.2f, 0.8f, 0.4f, 1.0f));
  Write(Npy<uint8_t>("|u1", "1, 3, 1, 2", {0, 51, 102, 153, 204, 255}), labels);
  EXPECT_THAT(Inputs(*LoadNpyDataset(options_).value()),
              ElementsAre(0.0f, 0.2f, 0.4f, 0.6f, 0.8f, 1.0f));
}

TEST_F(NpyDatasetTest, FloatingLabelsAreTargets) {
  Write(Npy<float>("<f4", "2, 1", {1, 2}), Npy<float>("<f4", "2,", {0.5f, 1.5f}));
  ASSERT_OK_AND_ASSIGN(const auto dataset, LoadNpyDataset(options_));
  EXPECT_EQ(dataset->fields()[1].name, kTargetField);
  EXPECT_EQ(dataset->fields()[1].example.ToString(), "float32[1]");
}

TEST_F(NpyDatasetTest, ABinaryLossTakesLabelsFrom0To1) {
  options_.num_classes = 2;
  options_.rules.binary_loss = "log_loss";
  const std::string inputs = Npy<float>("<f4", "2, 1", {1, 2});
  Write(inputs, Npy<int64_t>("<i8", "2,", {1, 0}));
  EXPECT_EQ(Error(), "");
  Write(inputs, Npy<int64_t>("<i8", "2,", {1, 2}));
  EXPECT_THAT(Error(), HasSubstr("_y.npy: label of row 1 is 2: it must be 0 or 1, because "
                                 "model.loss is log_loss"));
  Write(inputs, Npy<float>("<f4", "2,", {0.5f, 1}));
  EXPECT_EQ(Error(), "");
  Write(inputs, Npy<float>("<f4", "2, 1", {1, 3}));
  EXPECT_THAT(Error(), HasSubstr("_y.npy: label of row 1 is 3: it must be at least 0 and at most "
                                 "1, because model.loss is log_loss"));
  Write(inputs, Npy<float>("<f4", "2, 2", {1, 3, 1, 1}));
  EXPECT_EQ(Error(), "") << "several outputs are not one click";
}

TEST_F(NpyDatasetTest, MisfitsAreNamed) {
  const std::string inputs = Npy<float>("<f4", "2, 3", {1, 2, 3, 4, 5, 6});
  Write(inputs, Npy<int64_t>("<i8", "2,", {7, 10}));
  EXPECT_THAT(Error(), HasSubstr("_y.npy: label of row 1 is 10: it must be at least 0 and below "
                                 "the number of classes, 10; correct it or set data.classes"));
  Write(inputs, Npy<int64_t>("<i8", "3,", {1, 2, 3}));
  EXPECT_THAT(Error(), HasSubstr("_x.npy has 2 examples, "));
  Write(inputs, Npy<int64_t>("<i8", "1, 2", {1, 2}));
  EXPECT_THAT(Error(), HasSubstr("_y.npy: is <i8 [1,2]; it must be integers [examples]"));
  Write(Npy<int32_t>("<i4", "2, 1", {1, 2}), Npy<int64_t>("<i8", "2,", {1, 2}));
  EXPECT_THAT(Error(), HasSubstr("_x.npy: is <i4 [2,1]; it must be float32"));
  Write(Npy<uint8_t>("|u1", "1, 2, 1, 2", {1, 2, 3, 4}), Npy<int64_t>("<i8", "1,", {1}));
  EXPECT_THAT(Error(), HasSubstr("_x.npy: is |u1 [1,2,1,2]"));
}

TEST_F(NpyDatasetTest, ArraysThatAreNotReadAreNamed) {
  const std::string labels = Npy<int64_t>("<i8", "2,", {7, 1});
  Write(Npy<float>(">f4", "2, 1", {1, 2}), labels);
  EXPECT_THAT(Error(), HasSubstr("_x.npy: elements of type >f4 are not read; save float32"));
  Write(Npy<uint16_t>("<f2", "2, 1", {1, 2}), labels);
  EXPECT_THAT(Error(), HasSubstr("_x.npy: elements of type <f2 are not read; save float32, float64 "
                                 "or uint8, little-endian"));
  Write(Npy<float>("<f4", "2, 1", {1, 2}), Npy<uint16_t>("<f2", "2,", {1, 2}));
  EXPECT_THAT(Error(), HasSubstr("_y.npy: elements of type <f2 are not read; save integers, "
                                 "float32 or float64, little-endian"));
  Write(Npy<float>("<f4", "2, 1", {1, 2}, "True"), labels);
  EXPECT_THAT(Error(), HasSubstr("_x.npy: is column-major; save numpy.ascontiguousarray"));
  Write("PK\x03\x04 zipped", labels);
  EXPECT_THAT(Error(), HasSubstr("_x.npy: is not an npy file; write the file again"));
  Write(Npy<float>("<f4", "2, 1", {1}), labels);
  EXPECT_THAT(Error(), HasSubstr("is truncated or too long: its header promises 8 bytes"));
  Write(Npy<float>("<f4", "99999999999, 99999999999", {1}), labels);
  EXPECT_THAT(Error(), HasSubstr("is not a shape"));
  options_.inputs_path = "/nowhere/x_train.npy";
  EXPECT_THAT(LoadNpyDataset(options_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/x_train.npy")));
}

TEST_F(NpyDatasetTest, NoBytesCrashTheReader) {
  const std::string file = Npy<float>("<f4", "2, 3", {1, 2, 3, 4, 5, 6});
  int refused = 0;
  for (uint64_t round = 0; round < 400; ++round) {
    std::string mutant = file;
    for (uint64_t k = 0; k < 3; ++k) {
      mutant[RandomBelow(5, round * 8 + 2 * k, 80)] =
          static_cast<char>(RandomBits(5, round * 8 + 2 * k + 1));
    }
    if (round % 4 == 0) mutant.resize(RandomBelow(5, round * 8 + 7, file.size()));
    ASSERT_OK(WriteAtomically(*files_, options_.inputs_path, mutant));
    refused += LoadNpyDataset(options_).ok() ? 0 : 1;
  }
  EXPECT_GT(refused, 100);
}

TEST_F(NpyDatasetTest, InputsAloneHaveLabelsOfZero) {
  options_.labels_path.clear();
  const absl::StatusOr<std::unique_ptr<Dataset>> dataset = LoadNpyDataset(options_);
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  std::vector<float> inputs(6);
  std::vector<int32_t> labels(2, 9);
  ASSERT_OK((*dataset)->FillBatch(0, {0, 1}, {inputs.data(), labels.data()}));
  EXPECT_THAT(inputs, ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_THAT(labels, ElementsAre(0, 0));
}

TEST_F(NpyDatasetTest, InputsOfManyEmptyExamplesAreRefusedBeforeTheyGetLabels) {
  Write(Npy<float>("<f4", "1099511627776, 0", {}), "");
  options_.labels_path.clear();
  EXPECT_THAT(Error(), HasSubstr("_x.npy: is <f4 [1099511627776,0]; it must be float32"));
}

TEST_F(NpyDatasetTest, AHeaderThatIsWrittenIsRead) {
  for (const std::vector<int64_t>& dims : std::vector<std::vector<int64_t>>{{}, {6}, {2, 3}}) {
    const std::vector<float> elements(dims.empty() ? 1 : 6, 1.5f);
    std::string file = NpyHeader(dims);
    EXPECT_EQ(file.size() % 64, 0u);
    file.append(reinterpret_cast<const char*>(elements.data()), elements.size() * sizeof(float));
    ASSERT_OK(WriteAtomically(*files_, options_.inputs_path, file));
    const absl::StatusOr<NpyArray> array = ReadNpyFile(options_.inputs_path);
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_EQ(array->Type(), "<f4");
    EXPECT_EQ(array->dims, dims);
    EXPECT_EQ(array->At(0), 1.5);
  }
}

class NpyIdsTest : public ::testing::Test {
 protected:
  NpyIdsTest() {
    directory_ = absl::StrCat(::testing::TempDir(), "/npy_ids_",
                              ::testing::UnitTest::GetInstance()->current_test_info()->name());
    EXPECT_OK(RemoveTree(*files_, directory_));
    EXPECT_OK(files_->MakeDirectory(directory_));
    options_.ids_directory = directory_;
    options_.split = "train";
    options_.labels_path = directory_ + "/y_train.npy";
    options_.ids.resize(1);
    options_.ids[0].column = "item";
    options_.ids[0].entry = "data.ids[0]";
    Write("y", Npy<int64_t>("<i8", "3,", {1, 0, 1}));
    Write("item", Npy<int64_t>("<i8", "3,", {7, 0, int64_t{1} << 62}));
  }

  void Write(const std::string& name, const std::string& bytes) {
    ASSERT_OK(WriteAtomically(*files_, directory_ + "/" + name + "_train.npy", bytes));
  }

  std::string Error() { return std::string(LoadNpyDataset(options_).status().message()); }

  // Returns the ids of all examples; they have no field of numbers.
  RaggedRows Ids() {
    const auto data = LoadNpyDataset(options_);
    EXPECT_OK(data.status());
    if (!data.ok()) return RaggedRows();
    RaggedRows rows((*data)->fields()[1].kind == FieldKind::kWeightedRagged);
    std::vector<int64_t> all;
    for (int64_t i = 0; i < (*data)->size(); ++i) all.push_back(i);
    labels_.resize(all.size());
    EXPECT_OK((*data)->FillBatch(0, all, {labels_.data(), static_cast<void*>(&rows)}));
    return rows;
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  std::string directory_;
  NpyDatasetOptions options_;
  std::vector<int32_t> labels_;
};

TEST_F(NpyIdsTest, OneIdForEachExample) {
  EXPECT_THAT(Ids().keys(), ElementsAre(7, 0, int64_t{1} << 62));
  EXPECT_THAT(labels_, ElementsAre(1, 0, 1));
  options_.labels_path = "";  // predictions
  options_.max_examples = 2;
  EXPECT_THAT(Ids().keys(), ElementsAre(7, 0));
  EXPECT_THAT(labels_, ElementsAre(0, 0));
  options_.max_examples = 0;
  Write("item", Npy<uint64_t>("<u8", "3,", {7, UINT64_MAX, 9}));
  EXPECT_THAT(Ids().keys(), ElementsAre(7, -1, 9));
  Write("item", Npy<uint8_t>("|u1", "3,", {7, 255, 9}));
  EXPECT_THAT(Ids().keys(), ElementsAre(7, 255, 9));
}

TEST_F(NpyIdsTest, RowsOfSeveralIdsMayHaveFewer) {
  Write("item", Npy<int64_t>("<i8", "3, 2", {7, 8, 9, -1, -1, -1}));
  options_.ids[0].missing = -1;
  const RaggedRows rows = Ids();
  EXPECT_THAT(rows.keys(), ElementsAre(7, 8, 9));
  EXPECT_THAT(rows.offsets(), ElementsAre(0, 2, 3, 3));
}

TEST_F(NpyIdsTest, OffsetsDivideOneList) {
  Write("item", Npy<int64_t>("<i8", "4,", {7, 8, 9, 7}));
  Write("item_offsets", Npy<int32_t>("<i4", "4,", {0, 3, 3, 4}));
  Write("rating", Npy<double>("<f8", "4,", {0.5, 1, 2, -1}));
  options_.ids[0].weights = "rating";
  const RaggedRows rows = Ids();
  EXPECT_THAT(rows.keys(), ElementsAre(7, 8, 9, 7));
  EXPECT_THAT(rows.offsets(), ElementsAre(0, 3, 3, 4));
  EXPECT_THAT(rows.weights(), ElementsAre(0.5f, 1, 2, -1));
}

TEST_F(NpyIdsTest, AMeanTakesNoNegativeWeight) {
  Write("item", Npy<int64_t>("<i8", "3,", {7, 8, 9}));
  Write("rating", Npy<float>("<f4", "3,", {0, 1, -2}));
  options_.ids[0].weights = "rating";
  EXPECT_EQ(Error(), "");
  options_.rules.takes_mean = [](absl::string_view field) { return field == "item"; };
  EXPECT_THAT(Error(), HasSubstr("rating_train.npy: row 2 has an id whose weight -2 is negative, "
                                 "but the model takes the mean of these rows"));
}

TEST_F(NpyIdsTest, NumbersMayStandBesideIds) {
  options_.inputs_path = directory_ + "/x_train.npy";
  Write("x", Npy<float>("<f4", "3, 2", {1, 2, 3, 4, 5, 6}));
  ASSERT_OK_AND_ASSIGN(const auto data, LoadNpyDataset(options_));
  EXPECT_EQ(data->fields()[0].example.ToString(), "float32[2]");
  EXPECT_EQ(data->fields()[2].name, "item");
  Write("x", Npy<float>("<f4", "2, 1", {1, 2}));
  EXPECT_THAT(Error(), HasSubstr("x_train.npy has 2 examples, "));
  Write("x", Npy<float>("<f4", "3, 1", {1, NAN, 2}));
  EXPECT_THAT(Error(), HasSubstr("x_train.npy: row 1 has the value nan, which is not a finite"));
  Write("x", Npy<uint8_t>("|u1", "3, 1, 1", {1, 2, 3}));
  EXPECT_THAT(Error(), HasSubstr("it must be numbers, not images, beside columns of ids"));
}

TEST_F(NpyIdsTest, AnArrayThatDoesNotFitIsNamed) {
  Write("item", Npy<int64_t>("<i8", "2,", {7, 8}));
  EXPECT_THAT(Error(), HasSubstr("item_train.npy has 2 examples, "));
  EXPECT_THAT(Error(), HasSubstr("y_train.npy has 3: they must be as many; lists of ids need an"));
  Write("item", Npy<int64_t>("<i8", "3,", {7, 8, -1}));
  EXPECT_THAT(Error(), HasSubstr("item_train.npy: row 2 has the id -1, and ids are not negative; "
                                 "leave a missing id out (data.ids[0]: or set missing: -1 "));
  Write("item", Npy<float>("<f4", "3,", {7, 8, 9}));
  EXPECT_THAT(Error(), HasSubstr("item_train.npy: is <f4 [3]; ids (data.ids[0]) must be integers"));
  Write("item", Npy<int64_t>("<i8", "0,", {}));
  options_.labels_path = "";
  EXPECT_THAT(Error(), HasSubstr("item_train.npy: holds no examples"));
  ASSERT_OK(files_->Remove(directory_ + "/item_train.npy"));
  EXPECT_THAT(Error(), HasSubstr("item_train.npy: No such file or directory"));
}

TEST_F(NpyIdsTest, OffsetsAndWeightsThatDoNotFitAreNamed) {
  Write("item", Npy<int64_t>("<i8", "4,", {7, 8, 9, 7}));
  const auto error = [&](const std::vector<int64_t>& offsets) {
    Write("item_offsets", Npy<int64_t>("<i8", absl::StrCat(offsets.size(), ","), offsets));
    return Error();
  };
  EXPECT_THAT(error({1, 2, 3, 4}),
              HasSubstr("item_offsets_train.npy: row 0 is 1, but the first offset must be 0"));
  EXPECT_THAT(error({0, 3, 2, 4}), HasSubstr("row 2 is 2, less than the one before it"));
  EXPECT_THAT(error({0, 1, 2, 5}), HasSubstr("row 3 is 5, but the last offset must be the number"));
  EXPECT_THAT(error({0, 2, 4}), HasSubstr("item_train.npy has 2 examples, "));
  EXPECT_THAT(error({}), HasSubstr("offsets must be integers [examples + 1]"));
  EXPECT_THAT(error({0, 1, 2, 4}), "");
  options_.ids[0].weights = "rating";
  EXPECT_THAT(Error(), HasSubstr("rating_train.npy: No such file or directory"));
  Write("rating", Npy<float>("<f4", "3,", {1, 2, 3}));
  EXPECT_THAT(Error(), HasSubstr("rating_train.npy: is <f4 [3], but "));
  Write("rating", Npy<float>("<f4", "4,", {1, 2, NAN, 4}));
  EXPECT_THAT(Error(), HasSubstr("row 2 has the id 9, whose weight nan is not finite"));
  Write("item", Npy<int64_t>("<i8", "2, 2", {7, 8, 9, 7}));
  EXPECT_THAT(Error(), HasSubstr("it must be [ids]; remove one of the two files"));
}

}  // namespace
}  // namespace shoal
