#include "ml/data/tf_record_dataset.h"

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/random.h"
#include "base/status_matchers.h"
#include "ml/data/ids/text_hash.h"
#include "ml/data/image_encoder_testing.h"
#include "ml/data/ragged_rows.h"
#include "ml/data/records/tf_example.pb.h"
#include "ml/data/records/tf_record_file.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

tf::Example ImageExample(uint8_t value, int64_t label) {
  tf::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  const Image image = {{2, 2, 1}, std::vector<uint8_t>(4, value)};
  features["image/encoded"].mutable_bytes_list()->add_value(EncodePng(image));
  features["image/class/label"].mutable_int64_list()->add_value(label);
  return example;
}

class TfRecordDatasetTest : public ::testing::Test {
 protected:
  void Write(const std::string& name, const std::vector<tf::Example>& examples) {
    std::string bytes;
    for (const tf::Example& example : examples) {
      bytes += FrameTfRecord(example.SerializeAsString());
    }
    WriteBytes(name, bytes);
  }

  void WriteBytes(const std::string& name, const std::string& bytes) {
    const std::string path =
        absl::StrCat(::testing::TempDir(), "/records_",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name(), "_", name);
    ASSERT_OK(WriteAtomically(*files_, path, bytes));
    if (options_.paths.empty() || options_.paths.back() != path) options_.paths.push_back(path);
  }

  // Returns the error of opening the file, or of reading the example.
  std::string ErrorOf(int64_t index) {
    const auto dataset = OpenTfRecordDataset(options_);
    if (!dataset.ok()) return std::string(dataset.status().message());
    if (index >= (*dataset)->size()) return "there are fewer records";
    std::vector<float> input(
        static_cast<size_t>((*dataset)->fields()[0].example.shape.num_elements()));
    std::vector<float> label((*dataset)->fields()[1].example.bytes() / 4);
    return std::string((*dataset)->FillBatch(0, {index}, {input.data(), label.data()}).message());
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  TfRecordDatasetOptions options_;
};

TEST_F(TfRecordDatasetTest, RecordsOfAllFilesAreExamples) {
  Write("0", {ImageExample(51, 3), ImageExample(102, 4)});
  Write("1", {});
  Write("2", {ImageExample(204, 9)});
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenTfRecordDataset(options_));
  EXPECT_EQ(dataset->size(), 3);
  EXPECT_EQ(dataset->fields()[0].example.ToString(), "float32[1,2,2]");
  std::vector<float> inputs(12);
  int32_t labels[3];
  ASSERT_OK(dataset->FillBatch(0, {2, 0, 1}, {inputs.data(), labels}));
  EXPECT_THAT(labels, ElementsAre(9, 3, 4));
  EXPECT_EQ(inputs[0], 0.8f);
  EXPECT_EQ(inputs[4], 0.2f);
  EXPECT_EQ(inputs[11], 0.4f);
  options_.max_examples = 2;
  EXPECT_EQ(OpenTfRecordDataset(options_).value()->size(), 2);
}

TEST_F(TfRecordDatasetTest, RawPixelsAndFloatsAreInputs) {
  tf::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  features["raw"].mutable_bytes_list()->add_value(std::string("\x00\x33\x66\x99\xcc\xff", 6));
  features["vector"].mutable_float_list()->add_value(1.5f);
  features["vector"].mutable_float_list()->add_value(2.5f);
  features["label"].mutable_int64_list()->add_value(1);
  features["score"].mutable_float_list()->add_value(0.25f);
  Write("0", {example});
  options_.input = "raw";
  options_.label = "label";
  EXPECT_THAT(ErrorOf(0), HasSubstr("record 0: feature \"raw\" is neither PNG nor JPEG; if it is "
                                    "raw pixels, set data.image.height"));
  options_.image = {1, 2, 3};
  std::vector<float> input(6);
  int32_t label = 0;
  ASSERT_OK(OpenTfRecordDataset(options_).value()->FillBatch(0, {0}, {input.data(), &label}));
  EXPECT_THAT(input, ElementsAre(0.0f, 0.6f, 0.2f, 0.8f, 0.4f, 1.0f));
  options_.input = "vector";
  options_.label = "score";
  ASSERT_OK_AND_ASSIGN(const auto regression, OpenTfRecordDataset(options_));
  EXPECT_EQ(regression->fields()[0].example.ToString(), "float32[2]");
  EXPECT_EQ(regression->fields()[1].name, kTargetField);
  float target = 0;
  ASSERT_OK(regression->FillBatch(0, {0}, {input.data(), &target}));
  EXPECT_EQ(input[1], 2.5f);
  EXPECT_EQ(target, 0.25f);
}

// tf.train.Example {"x": [1.0], "y": [2]} in its frame, byte by byte by a script after the formats'
// descriptions, with its own CRC-32C.
constexpr char kGolden[] =
    "1d00000000000000602fdf230a1b0a0d0a0178120812060a040000803f0a0a0a017912051a030a0102286afe99";

TEST_F(TfRecordDatasetTest, TheBytesAreThoseOfTensorFlow) {
  WriteBytes("0", absl::HexStringToBytes(kGolden));
  options_.input = "x";
  options_.label = "y";
  ASSERT_OK_AND_ASSIGN(const auto dataset, OpenTfRecordDataset(options_));
  float input = 0;
  int32_t label = 0;
  ASSERT_OK(dataset->FillBatch(0, {0}, {&input, &label}));
  EXPECT_EQ(input, 1.0f);
  EXPECT_EQ(label, 2);
}

TEST_F(TfRecordDatasetTest, DamageIsNamedByFileAndRecord) {
  const std::string first = FrameTfRecord(ImageExample(51, 3).SerializeAsString());
  const std::string second = FrameTfRecord(ImageExample(52, 3).SerializeAsString());
  WriteBytes("0", first + second.substr(0, second.size() - 1));
  EXPECT_THAT(ErrorOf(0), HasSubstr("_0: truncated in record 1; fetch"));
  WriteBytes("0", first + second.substr(0, 5));
  EXPECT_THAT(ErrorOf(0), HasSubstr("_0: truncated in the length of record 1; fetch"));
  std::string damaged = first + second;
  damaged[first.size() + 1] ^= 1;
  WriteBytes("0", damaged);
  EXPECT_THAT(ErrorOf(0), HasSubstr("_0: damaged in the length of record 1; fetch"));
  damaged = first + second;
  damaged[first.size() + 30] ^= 1;
  WriteBytes("0", damaged);
  EXPECT_EQ(ErrorOf(0), "");
  EXPECT_THAT(ErrorOf(1), HasSubstr("_0: damaged in record 1; fetch"));
  WriteBytes("0", "\x1f\x8b compressed");
  EXPECT_THAT(ErrorOf(0), HasSubstr("_0: compressed files are not read; unpack it"));
  WriteBytes("0", "");
  EXPECT_THAT(ErrorOf(0), HasSubstr("_0: no records"));
  WriteBytes("0", FrameTfRecord("no example"));
  EXPECT_THAT(ErrorOf(0), HasSubstr("_0: record 0: is not a tf.Example"));
}

TEST_F(TfRecordDatasetTest, FeaturesThatDoNotFitAreNamed) {
  Write("0", {ImageExample(51, 3), ImageExample(51, 10), ImageExample(51, -1)});
  EXPECT_THAT(ErrorOf(1), AllOf(HasSubstr("_0: record 1: feature \"image/class/label\" is 10: it"),
                                HasSubstr("data.classes")));
  EXPECT_THAT(ErrorOf(2), HasSubstr("record 2: feature \"image/class/label\" is -1: it"));
  options_.label = "label";
  EXPECT_THAT(ErrorOf(0), HasSubstr("record 0: has no feature \"label\" (data.tfrecord.label); it "
                                    "has image/class/label, image/encoded"));
  options_.label = "image/class/label";
  tf::Example other = ImageExample(51, 3);
  (*other.mutable_features()->mutable_feature())["image/encoded"].mutable_bytes_list()->set_value(
      0, "garbled");
  Write("0", {ImageExample(51, 3), other});
  EXPECT_THAT(ErrorOf(1), HasSubstr("record 1: unreadable image (it is neither PNG nor JPEG)"));
  options_.paths = {"/nowhere/train.tfrecord"};
  EXPECT_THAT(ErrorOf(0), HasSubstr("/nowhere/train.tfrecord"));
}

TEST_F(TfRecordDatasetTest, ABinaryLossTakesLabelsFrom0To1) {
  Write("0", {ImageExample(51, 1), ImageExample(51, 2)});
  options_.num_classes = 2;
  options_.rules.binary_loss = "hinge";
  EXPECT_EQ(ErrorOf(0), "");
  EXPECT_THAT(ErrorOf(1),
              HasSubstr("_0: record 1: feature \"image/class/label\" is 2: it must be 0 "
                        "or 1, because model.loss is hinge"));
  tf::Example example = ImageExample(51, 1);
  auto& features = *example.mutable_features()->mutable_feature();
  features["clicks"].mutable_float_list()->add_value(2.5f);
  Write("0", {example});
  options_.label = "clicks";
  EXPECT_THAT(ErrorOf(0),
              HasSubstr("_0: record 0: feature \"clicks\" is 2.5: it must be at least 0 "
                        "and at most 1, because model.loss is hinge"));
}

TEST_F(TfRecordDatasetTest, TheFingerprintIsOfTheRecords) {
  Write("0", {ImageExample(51, 3), ImageExample(52, 3)});
  const uint64_t first = OpenTfRecordDataset(options_).value()->fingerprint();
  EXPECT_EQ(OpenTfRecordDataset(options_).value()->fingerprint(), first);
  Write("0", {ImageExample(51, 3), ImageExample(52, 4)});
  EXPECT_NE(OpenTfRecordDataset(options_).value()->fingerprint(), first);
}

TEST_F(TfRecordDatasetTest, NoBytesCrashTheReader) {
  std::string file;
  for (uint8_t i = 0; i < 3; ++i) {
    file += FrameTfRecord(ImageExample(i, i).SerializeAsString());
  }
  int refused = 0;
  for (uint64_t round = 0; round < 300; ++round) {
    std::string mutant = file;
    mutant[RandomBelow(3, round * 8, file.size())] ^=
        static_cast<char>(1 + RandomBelow(3, round * 8 + 1, 255));
    if (round % 3 == 0) mutant.resize(RandomBelow(3, round * 8 + 2, file.size()));
    WriteBytes("0", mutant);
    refused += ErrorOf(0).empty() && ErrorOf(1).empty() && ErrorOf(2).empty() ? 0 : 1;
  }
  EXPECT_GT(refused, 290) << "a changed byte that no checksum covers";
}

// A record of a click: the age, the items, of which the first one is 7, and their ratings.
tf::Example Click(int64_t items, float age) {
  tf::Example example;
  auto& features = *example.mutable_features()->mutable_feature();
  for (int64_t i = 0; i < items; ++i) {
    features["items"].mutable_int64_list()->add_value(7 + i);
    features["ratings"].mutable_float_list()->add_value(0.5f);
  }
  features["age"].mutable_float_list()->add_value(age);
  features["click"].mutable_int64_list()->add_value(items % 2);
  return example;
}

class TfRecordIdsTest : public TfRecordDatasetTest {
 protected:
  TfRecordIdsTest() {
    options_.label = "click";
    options_.ids.resize(1);
    options_.ids[0].column = "items";
    options_.ids[0].entry = "data.ids[0]";
    options_.numbers = {"age"};
  }

  // Returns the ids of all records, or the error.
  absl::StatusOr<RaggedRows> Ids() {
    const auto data = OpenTfRecordDataset(options_);
    if (!data.ok()) return data.status();
    const size_t field = (*data)->fields().size() - 1;
    RaggedRows rows((*data)->fields()[field].kind == FieldKind::kWeightedRagged);
    std::vector<int64_t> all;
    for (int64_t i = 0; i < (*data)->size(); ++i) all.push_back(i);
    labels_.resize(all.size());
    inputs_.resize(all.size());
    std::vector<void*> outputs = {labels_.data(), &rows};
    if (field == 2) outputs.insert(outputs.begin(), inputs_.data());
    const absl::Status status = (*data)->FillBatch(0, all, outputs);
    if (!status.ok()) return status;
    return rows;
  }

  std::vector<float> inputs_;
  std::vector<int32_t> labels_;
};

TEST_F(TfRecordIdsTest, ListsOfAnyLengthAreAField) {
  Write("0", {Click(2, 30), Click(0, 40), Click(1, 50)});
  options_.ids[0].name = "clicked";
  ASSERT_OK_AND_ASSIGN(const RaggedRows rows, Ids());
  EXPECT_THAT(rows.keys(), ElementsAre(7, 8, 7));
  EXPECT_THAT(rows.offsets(), ElementsAre(0, 2, 2, 3));
  EXPECT_THAT(inputs_, ElementsAre(30, 40, 50));
  EXPECT_THAT(labels_, ElementsAre(0, 0, 1));
  ASSERT_OK_AND_ASSIGN(const auto data, OpenTfRecordDataset(options_));
  EXPECT_EQ(data->fields()[2].name, "clicked");
}

TEST_F(TfRecordIdsTest, WithoutNumbersAndLabelsThereAreIdsAlone) {
  Write("0", {Click(2, 30)});
  options_.numbers.clear();
  options_.has_label = false;
  options_.label = "none";
  options_.ids[0].weights = "ratings";
  ASSERT_OK_AND_ASSIGN(const RaggedRows rows, Ids());
  EXPECT_THAT(rows.weights(), ElementsAre(0.5f, 0.5f));
  EXPECT_THAT(labels_, ElementsAre(0));
}

TEST_F(TfRecordIdsTest, WordsThatStandForNoIdAreLeftOutAndChangeTheFingerprint) {
  tf::Example example = Click(1, 30);
  auto& features = *example.mutable_features()->mutable_feature();
  for (const char* word : {"NULL", "blue"}) features["words"].mutable_bytes_list()->add_value(word);
  Write("0", {example});
  options_.ids[0].column = "words";
  options_.ids[0].words = true;
  ASSERT_OK_AND_ASSIGN(const RaggedRows all, Ids());
  EXPECT_EQ(all.keys().size(), 2u);
  const uint64_t fingerprint = OpenTfRecordDataset(options_).value()->fingerprint();
  options_.ids[0].missing_words = {"NULL"};
  ASSERT_OK_AND_ASSIGN(const RaggedRows rows, Ids());
  EXPECT_THAT(rows.keys(), ElementsAre(static_cast<int64_t>(HashText("blue"))));
  EXPECT_NE(OpenTfRecordDataset(options_).value()->fingerprint(), fingerprint);
}

TEST_F(TfRecordIdsTest, AMeanTakesNoNegativeWeight) {
  tf::Example other = Click(1, 40);
  auto& features = *other.mutable_features()->mutable_feature();
  features["ratings"].mutable_float_list()->set_value(0, -0.5f);
  Write("0", {Click(2, 30), other});
  options_.ids[0].name = "clicked";
  options_.ids[0].weights = "ratings";
  EXPECT_OK(Ids().status());
  options_.rules.takes_mean = [](absl::string_view field) { return field == "clicked"; };
  EXPECT_THAT(Ids().status().message(),
              HasSubstr("_0: record 1: feature \"items\" has an id whose weight -0.5 is negative"));
}

TEST_F(TfRecordIdsTest, AFeatureThatDoesNotFitIsNamedWithItsRecord) {
  const auto error = [&] { return std::string(Ids().status().message()); };
  tf::Example other = Click(1, 40);
  auto& features = *other.mutable_features()->mutable_feature();
  features["items"].mutable_int64_list()->set_value(0, -3);
  Write("0", {Click(2, 30), other});
  EXPECT_THAT(error(), HasSubstr("_0: record 1: feature \"items\" has the id -3, and ids are not"));
  options_.ids[0].negative = true;
  options_.ids[0].weights = "age";
  EXPECT_THAT(error(),
              HasSubstr("record 0: feature \"age\" has 1 floats, but feature \"items\" has"));
  options_.ids[0].weights = "";
  options_.ids[0].column = "shop";
  EXPECT_THAT(error(), HasSubstr("_0: none of the first 2 records has the feature \"shop\" of "
                                 "data.ids; record 0 has age, click, items, ratings"));
  options_.ids[0].column = "items";
  features["age"].mutable_float_list()->add_value(1);
  Write("0", {Click(2, 30), other});
  EXPECT_THAT(error(),
              HasSubstr("record 1: feature \"age\" has 2 numbers, the first record has 1"));
  options_.numbers = {"size"};
  EXPECT_THAT(error(), HasSubstr("record 0: feature \"size\" is missing; write a number for it"));
}

}  // namespace
}  // namespace shoal
