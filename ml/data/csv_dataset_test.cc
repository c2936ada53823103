#include "ml/data/csv_dataset.h"

#include <zlib.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "ml/data/ids/id_column.h"
#include "ml/data/ids/text_hash.h"
#include "ml/data/ragged_rows.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class CsvDatasetTest : public ::testing::Test {
 protected:
  CsvDatasetTest() {
    options_.path =
        absl::StrCat(::testing::TempDir(), "/",
                     ::testing::UnitTest::GetInstance()->current_test_info()->name(), ".csv");
  }

  void Load(const std::string& text) {
    ASSERT_OK(WriteAtomically(*files_, options_.path, text));
    dataset_ = LoadCsvDataset(options_);
    inputs_.clear();
    labels_.clear();
    if (!dataset_.ok()) return;
    const int64_t columns = (*dataset_)->fields()[0].example.shape.dim(0);
    inputs_.resize(static_cast<size_t>((*dataset_)->size() * columns));
    labels_.resize(static_cast<size_t>((*dataset_)->size()));
    std::vector<int64_t> all;
    for (int64_t i = 0; i < (*dataset_)->size(); ++i) all.push_back(i);
    ASSERT_OK((*dataset_)->FillBatch(0, all, {inputs_.data(), labels_.data()}));
  }

  // Returns the text of the error behind the file's name.
  std::string ErrorOf(const std::string& text) {
    Load(text);
    return std::string(dataset_.status().message());
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  CsvDatasetOptions options_;
  absl::StatusOr<std::unique_ptr<Dataset>> dataset_;
  std::vector<float> inputs_;
  std::vector<int32_t> labels_;
};

TEST_F(CsvDatasetTest, TextInUtf16IsNamed) {
  EXPECT_THAT(ErrorOf(std::string("\xff\xfe"
                                  "a\0,\0b\0\n\0",
                                  10)),
              EndsWith(": is text in UTF-16; save it as UTF-8"));
  EXPECT_THAT(ErrorOf(std::string("\xfe\xff\0a\0,\0b\0\n", 10)), HasSubstr("is text in UTF-16"));
}

TEST_F(CsvDatasetTest, TheLabelIsTheLastColumnUnlessNamed) {
  Load("a,b,c\n1,2,3\n4,5,6\n");
  EXPECT_THAT(inputs_, ElementsAre(1, 2, 4, 5));
  EXPECT_THAT(labels_, ElementsAre(3, 6));
  for (const char* label : {"a", "0", "-3"}) {
    options_.label = label;
    Load("a,b,c\n1,2,3\n4,5,6\n");
    EXPECT_THAT(inputs_, ElementsAre(2, 3, 5, 6)) << label;
    EXPECT_THAT(labels_, ElementsAre(1, 4)) << label;
  }
}

TEST_F(CsvDatasetTest, QuotesSpacesEmptyLinesAndLineEndsDoNotMatter) {
  Load("\xef\xbb\xbf\"a, b\", c\r\n\r\n \"1.5\" ,2\r\n-1e-3,\" 3 \"");
  EXPECT_THAT(inputs_, ElementsAre(1.5f, -1e-3f));
  EXPECT_THAT(labels_, ElementsAre(2, 3));
}

TEST_F(CsvDatasetTest, OtherDelimitersAndNoHeader) {
  options_.delimiter = '\t';
  options_.has_header = false;
  Load("1\t2\n3\t4\n");
  EXPECT_THAT(inputs_, ElementsAre(1, 3));
  options_.max_examples = 1;
  Load("1\t2\n3\tgarbled\n");
  EXPECT_THAT(inputs_, ElementsAre(1));
}

TEST_F(CsvDatasetTest, ARegressionHasATarget) {
  options_.is_regression = true;
  ASSERT_OK(WriteAtomically(*files_, options_.path, "a,b\n1,2.5\n"));
  ASSERT_OK_AND_ASSIGN(const auto dataset, LoadCsvDataset(options_));
  EXPECT_EQ(dataset->fields()[1].name, kTargetField);
  float input = 0, target = 0;
  ASSERT_OK(dataset->FillBatch(0, {0}, {&input, &target}));
  EXPECT_EQ(target, 2.5f);
}

TEST_F(CsvDatasetTest, BadCellsAreNamedByLineAndColumn) {
  EXPECT_THAT(ErrorOf("a,b\n1,2\n,3\n"),
              EndsWith(".csv:3: column \"a\" is empty (data.csv.empty_number gives such cells a "
                       "value); correct or remove the line"));
  EXPECT_THAT(ErrorOf("a,b\n\nx1,2\n"),
              HasSubstr(".csv:3: column \"a\" is \"x1\", which is not a finite number"));
  EXPECT_THAT(ErrorOf("a,b\nnan,2\n"), HasSubstr(".csv:2: column \"a\" is \"nan\""));
  EXPECT_THAT(ErrorOf("a,b\n1e99,2\n"), HasSubstr(".csv:2: column \"a\" is \"1e99\""));
  EXPECT_THAT(ErrorOf("a,b\n1,2,3\n"), HasSubstr(".csv:2: has 3 columns, the first line has 2"));
  EXPECT_THAT(ErrorOf("a,b\n\"1,2\n"), HasSubstr(".csv:2: has a quote that is open"));
  options_.has_header = false;
  EXPECT_THAT(ErrorOf("1,2\n?,2\n"), HasSubstr(".csv:2: column 0 is \"?\""));
}

TEST_F(CsvDatasetTest, AnEmptyNumberMayHaveAValue) {
  options_.empty_number = -1.5f;
  Load("a,b,c\n1,,0\n , 2,1\n");
  EXPECT_THAT(inputs_, ElementsAre(1, -1.5f, -1.5f, 2));
  EXPECT_THAT(labels_, ElementsAre(0, 1));
  EXPECT_THAT(ErrorOf("a,b\n1,\n"),
              EndsWith(".csv:2: column \"b\" is empty; correct or remove the line"));
  EXPECT_THAT(ErrorOf("a,b\nNULL,1\n"), HasSubstr("column \"a\" is \"NULL\", which is not a"));
  options_.delimiter = '\t';
  options_.label = "b";
  Load("a\tb\tc\n\t0\t5\n4\t1\t\r\n");
  EXPECT_THAT(inputs_, ElementsAre(-1.5f, 5, 4, -1.5f));
}

TEST_F(CsvDatasetTest, BadLabelsAreNamedByLine) {
  EXPECT_THAT(ErrorOf("a,b\n1,10\n"),
              HasSubstr(".csv:2: label in column \"b\" is 10: it must be at least 0 and below the "
                        "number of classes, 10 (set data.classes if there are more)"));
  EXPECT_THAT(ErrorOf("a,b\n1,-1\n"), HasSubstr("is -1: it must be"));
  EXPECT_THAT(ErrorOf("a,b\n1,0.5\n"),
              HasSubstr("label in column \"b\" is \"0.5\", which is not a class"));
}

TEST_F(CsvDatasetTest, ABinaryLossTakesTheLabels0And1) {
  options_.num_classes = 2;
  options_.rules.binary_loss = "sigmoid_cross_entropy";
  Load("a,clicks\n1,0\n2,1\n");
  EXPECT_THAT(labels_, ElementsAre(0, 1));
  EXPECT_THAT(ErrorOf("a,clicks\n1,0\n2,3\n"),
              EndsWith(".csv:3: label in column \"clicks\" is 3: it must be 0 or 1, because "
                       "model.loss is sigmoid_cross_entropy (sparse_softmax_cross_entropy takes "
                       "more classes); correct or remove the line"));
  options_.is_regression = true;
  EXPECT_THAT(ErrorOf("a,clicks\n1,0.5\n2,1.5\n"),
              HasSubstr(".csv:3: label in column \"clicks\" is 1.5: it must be at least 0 and at "
                        "most 1, because model.loss is sigmoid_cross_entropy"));
}

TEST_F(CsvDatasetTest, FilesThatAreNotSuchATableAreNamed) {
  EXPECT_THAT(ErrorOf(""), HasSubstr(".csv: holds no examples"));
  EXPECT_THAT(ErrorOf("a,b\n"), HasSubstr(".csv: holds no examples"));
  EXPECT_THAT(ErrorOf("1,2\n3,4\n"), HasSubstr("data.csv.no_header: is not set, but"));
  EXPECT_THAT(ErrorOf("a;b\n3;4\n"), HasSubstr(".csv:1: has one column;"));
  options_.label = "species";
  EXPECT_THAT(ErrorOf("a,b\n1,2\n"), HasSubstr("data.csv.label: \"species\" is not a column of"));
  EXPECT_THAT(ErrorOf("a,b\n1,2\n"), EndsWith("it is a, b, or 0 to 1"));
  options_.path = "/nowhere/train.csv";
  EXPECT_THAT(LoadCsvDataset(options_),
              StatusIs(absl::StatusCode::kNotFound, HasSubstr("/nowhere/train.csv")));
}

TEST_F(CsvDatasetTest, WordsAreClassesInTheOrderOfTheirNames) {
  options_.label = "kind";
  Load("kind,a\nwolf,1\ncat,2\n\"cat\",3\ndog,4\n");
  ASSERT_TRUE(dataset_.ok()) << dataset_.status();
  EXPECT_THAT(labels_, ElementsAre(2, 0, 0, 1));
  EXPECT_THAT(inputs_, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT((*dataset_)->class_names(), ElementsAre("cat", "dog", "wolf"));
  EXPECT_EQ((*dataset_)->num_classes(), 3);
  options_.max_examples = 1;  // Decides the examples, not the classes.
  Load("kind,a\nwolf,1\ncat,2\n");
  EXPECT_THAT(labels_, ElementsAre(1));
}

TEST_F(CsvDatasetTest, ATestSplitHasTheClassesOfTheTrainingSplit) {
  options_.classes_path = options_.path + ".train";
  ASSERT_OK(WriteAtomically(*files_, options_.classes_path, "a,kind\n1,cat\n2,dog\n3,wolf\n"));
  Load("a,kind\n7,wolf\n");
  EXPECT_THAT(labels_, ElementsAre(2));
  EXPECT_THAT(ErrorOf("a,kind\n7,wolf\n8,cow\n"),
              HasSubstr(".csv:3: label in column \"kind\" is \"cow\", which no example has for "
                        "training; correct or remove the line"));
  EXPECT_THAT(ErrorOf("a,kind\n7,3\n"), HasSubstr("\"3\", which no example has for training"));
  ASSERT_OK(files_->Remove(options_.classes_path));
  EXPECT_THAT(ErrorOf("a,kind\n7,wolf\n"), HasSubstr(".csv.train"));
  Load("a,kind\n7,3\n");  // Numbers need no other table.
  EXPECT_THAT(labels_, ElementsAre(3));
}

TEST_F(CsvDatasetTest, ATestSplitHasTheColumnsOfTheTrainingSplit) {
  options_.classes_path = options_.path + ".train";
  ASSERT_OK(WriteAtomically(*files_, options_.classes_path, "width,height,kind\n1,2,0\n"));
  Load("width,height,kind\n1,2,1\n");
  EXPECT_THAT(ErrorOf("height,width,kind\n2,1,1\n"),
              HasSubstr("its columns are height, width, kind; those of "));
  options_.has_header = false;
  Load("2,1,1\n");
}

TEST_F(CsvDatasetTest, WordsAndNumbersAreNotMixedAsLabels) {
  EXPECT_THAT(
      ErrorOf("a,b\n1,cat\n2,3\n"),
      HasSubstr(".csv:3: label in column \"b\" is the number 3, but the first one is a word"));
  EXPECT_THAT(ErrorOf("a,b\n1,3\n2,cat\n"),
              HasSubstr(".csv:3: column \"b\" is \"cat\", which is not a finite number"));
  EXPECT_THAT(ErrorOf("a,b\n1,cat\n2,\n"), HasSubstr(".csv:3: column \"b\" is empty"));
  options_.is_regression = true;
  EXPECT_THAT(ErrorOf("a,b\n1,cat\n"), HasSubstr("which is not a finite number"));
}

TEST_F(CsvDatasetTest, WithoutALabelAllColumnsAreInputs) {
  options_.has_label = false;
  ASSERT_OK(WriteAtomically(*files_, options_.path, "a,b\n1,2\n3,4\n"));
  dataset_ = LoadCsvDataset(options_);
  ASSERT_TRUE(dataset_.ok()) << dataset_.status();
  std::vector<float> inputs(4);
  std::vector<int32_t> labels(2, 9);
  ASSERT_OK((*dataset_)->FillBatch(0, {0, 1}, {inputs.data(), labels.data()}));
  EXPECT_THAT(inputs, ElementsAre(1, 2, 3, 4));
  EXPECT_THAT(labels, ElementsAre(0, 0));
}

// The keys of each example of a ragged field.
std::vector<std::vector<int64_t>> KeysOf(const Dataset& data, size_t field) {
  std::vector<int64_t> all;
  for (int64_t i = 0; i < data.size(); ++i) all.push_back(i);
  std::vector<std::vector<char>> dense(data.fields().size());
  std::vector<RaggedRows> ragged(data.fields().size());
  std::vector<void*> outputs;
  for (size_t f = 0; f < dense.size(); ++f) {
    if (!data.fields()[f].is_ragged())
      dense[f].resize(all.size() * data.fields()[f].example.bytes());
    outputs.push_back(data.fields()[f].is_ragged() ? static_cast<void*>(&ragged[f])
                                                   : dense[f].data());
  }
  EXPECT_OK(data.FillBatch(0, all, outputs));
  std::vector<std::vector<int64_t>> keys;
  for (const int64_t i : all) {
    const absl::Span<const int64_t> of_example = ragged[field].keys_of(i);
    keys.emplace_back(of_example.begin(), of_example.end());
  }
  return keys;
}

std::vector<std::string> NamesOf(const Dataset& data) {
  std::vector<std::string> names;
  for (const FieldSpec& field : data.fields()) names.push_back(field.name);
  return names;
}

IdColumn Ids(const std::string& column, bool words = false, const std::string& separator = "") {
  IdColumn ids;
  ids.column = column;
  ids.words = words;
  ids.separator = separator;
  return ids;
}

TEST_F(CsvDatasetTest, ColumnsOfIdsAreFieldsOfTheirOwn) {
  options_.ids = {Ids("item", true, "|"), Ids("user")};
  ASSERT_OK(WriteAtomically(*files_, options_.path,
                            "user,age,item,click\n17,0.5,a|b,1\n,1.5,,0\n3,2.5,\"a\",1\n"));
  ASSERT_OK_AND_ASSIGN(const auto data, LoadCsvDataset(options_));
  EXPECT_THAT(NamesOf(*data), ElementsAre("input", "label", "item", "user"));
  EXPECT_EQ(data->fields()[0].example.ToString(), "float32[1]");
  const auto a = static_cast<int64_t>(HashText("a")), b = static_cast<int64_t>(HashText("b"));
  EXPECT_THAT(KeysOf(*data, 2), ElementsAre(ElementsAre(a, b), ElementsAre(), ElementsAre(a)));
  EXPECT_THAT(KeysOf(*data, 3), ElementsAre(ElementsAre(17), ElementsAre(), ElementsAre(3)));
}

TEST_F(CsvDatasetTest, APatternNamesManyColumnsOfIds) {
  options_.ids = {Ids("c*", true), Ids("c2")};
  ASSERT_OK(WriteAtomically(*files_, options_.path, "c1,c2,click,c3\nx,2,1,\n"));
  options_.label = "click";
  ASSERT_OK_AND_ASSIGN(const auto data, LoadCsvDataset(options_));
  EXPECT_THAT(NamesOf(*data), ElementsAre("label", "c1", "c3", "c2"));
  EXPECT_THAT(KeysOf(*data, 1), ElementsAre(ElementsAre(static_cast<int64_t>(HashText("x")))));
  EXPECT_THAT(KeysOf(*data, 2), ElementsAre(ElementsAre()));
  EXPECT_THAT(KeysOf(*data, 3), ElementsAre(ElementsAre(2)));
}

TEST_F(CsvDatasetTest, CellsAtTheEndsOfALineMayBeEmptyAlsoBetweenTabs) {
  options_.delimiter = '\t';
  options_.has_header = false;
  options_.has_label = false;
  IdColumn last = Ids("2");
  last.name = "last";
  options_.ids = {Ids("0"), last};
  ASSERT_OK(WriteAtomically(*files_, options_.path, "\t0.5\t\r\n1\t1.5\t2\r\n\t\"2.5\"\t3"));
  ASSERT_OK_AND_ASSIGN(const auto data, LoadCsvDataset(options_));
  EXPECT_THAT(NamesOf(*data), ElementsAre("input", "label", "0", "last"));
  EXPECT_THAT(KeysOf(*data, 2), ElementsAre(ElementsAre(), ElementsAre(1), ElementsAre()));
  EXPECT_THAT(KeysOf(*data, 3), ElementsAre(ElementsAre(), ElementsAre(2), ElementsAre(3)));
}

TEST_F(CsvDatasetTest, WrongColumnsOfIdsAreNamed) {
  const std::string table = "user,item,click\n1,2,0\n";
  options_.ids = {Ids("shop")};
  EXPECT_THAT(ErrorOf(table), HasSubstr(".csv: column of ids \"shop\" is not there; "));
  EXPECT_THAT(ErrorOf(table), EndsWith("the columns are user, item, click, or 0 to 2"));
  options_.ids = {Ids("shop*")};
  EXPECT_THAT(ErrorOf(table),
              HasSubstr("\"shop*\" stands for no column; the columns are user, item"));
  options_.ids = {Ids("click")};
  EXPECT_THAT(ErrorOf(table), HasSubstr("\"click\" is the label's column (data.csv.label)"));
  options_.ids = {Ids("user"), Ids("0")};
  EXPECT_THAT(ErrorOf(table), HasSubstr("\"0\" is named twice"));
  options_.ids = {Ids("user")};
  EXPECT_THAT(ErrorOf("user,input,click\nanna,2,0\n"),
              HasSubstr(".csv:2: column \"user\" is \"anna\", which is not a whole number"));
  EXPECT_THAT(ErrorOf("user,input,click\n-1,2,0\n"), HasSubstr("ids are not negative"));
  options_.ids = {Ids("input")};
  EXPECT_THAT(ErrorOf("user,input,click\n1,2,0\n"),
              HasSubstr("would be the field input, which the data has already"));
}

TEST_F(CsvDatasetTest, IdsMayHaveWeights) {
  IdColumn rated = Ids("rated", false, "|");
  rated.weights = ":";
  rated.entry = "data.ids[0]";
  options_.ids = {rated};
  ASSERT_OK(WriteAtomically(*files_, options_.path, "rated,click\n7:0.5|8:2,1\n,0\n"));
  ASSERT_OK_AND_ASSIGN(const auto data, LoadCsvDataset(options_));
  EXPECT_EQ(data->fields()[1].kind, FieldKind::kWeightedRagged);
  std::vector<int32_t> labels(2);
  RaggedRows rows(/*has_weights=*/true);
  ASSERT_OK(data->FillBatch(0, {0, 1}, {labels.data(), static_cast<void*>(&rows)}));
  EXPECT_THAT(rows.keys_of(0), ElementsAre(7, 8));
  EXPECT_THAT(rows.weights_of(0), ElementsAre(0.5f, 2));
  EXPECT_TRUE(rows.keys_of(1).empty());
  EXPECT_THAT(ErrorOf("rated,click\n7:1|8,1\n"),
              HasSubstr(".csv:2: column \"rated\" is \"7:1|8\", where 8 has no weight; write 8:1 "
                        "(data.ids[0]: weights); correct or remove the line"));
}

TEST_F(CsvDatasetTest, AMeanTakesNoNegativeWeight) {
  IdColumn seen = Ids("seen", false, "|");
  seen.weights = ":";
  options_.ids = {seen};
  options_.rules.takes_mean = [](absl::string_view field) { return field == "seen"; };
  const std::string table = "seen,age,click\n7:0|8:1,2,0\n7:1|8:-0.999,3,1\n";
  EXPECT_THAT(ErrorOf(table),
              EndsWith(".csv:3: column \"seen\" is \"7:1|8:-0.999\", whose weight -0.999 is "
                       "negative, but the model takes the mean of these rows; use weights of at "
                       "least 0, or pooling: sum; correct or remove the line"));
  options_.rules.takes_mean = [](absl::string_view field) { return field == "shown"; };
  EXPECT_OK(LoadCsvDataset(options_).status());
}

TEST_F(CsvDatasetTest, NumbersThatAreNamedAreTheInputInTheirOrder) {
  options_.label = "click";
  options_.numbers = {"n*", "age"};
  Load("age,who,n1,click,n2\n30,anna,1,0,2\n40,,3,1,4\n");
  ASSERT_TRUE(dataset_.ok()) << dataset_.status();
  EXPECT_THAT(inputs_, ElementsAre(1, 2, 30, 3, 4, 40));
  options_.numbers = {"size"};
  EXPECT_THAT(ErrorOf("age,click\n1,0\n"),
              HasSubstr("column of numbers \"size\" (data.numbers) is not there; the columns are"));
  options_.numbers = {"age"};
  options_.ids = {Ids("age")};
  EXPECT_THAT(ErrorOf("age,click\n1,0\n"), HasSubstr("\"age\" (data.numbers) is named twice"));
}

TEST_F(CsvDatasetTest, IndicesCountTheLabelThatATableForPredictionsLacks) {
  options_.has_header = false;
  options_.label = "1";
  options_.ids = {Ids("2"), Ids("-1")};
  ASSERT_OK(WriteAtomically(*files_, options_.path, "0.5,1,17,18\n"));
  ASSERT_OK_AND_ASSIGN(const auto whole, LoadCsvDataset(options_));
  EXPECT_THAT(KeysOf(*whole, 2), ElementsAre(ElementsAre(17)));
  EXPECT_THAT(KeysOf(*whole, 3), ElementsAre(ElementsAre(18)));
  options_.has_label = false;
  ASSERT_OK(WriteAtomically(*files_, options_.path, "0.5,17,18\n"));
  ASSERT_OK_AND_ASSIGN(const auto input, LoadCsvDataset(options_));
  EXPECT_EQ(input->fields()[0].example.ToString(), "float32[1]");
  EXPECT_THAT(KeysOf(*input, 2), ElementsAre(ElementsAre(17)));
  EXPECT_THAT(KeysOf(*input, 3), ElementsAre(ElementsAre(18)));
  options_.ids = {Ids("1")};
  EXPECT_THAT(LoadCsvDataset(options_).status().message(),
              HasSubstr("column of ids \"1\" is not there"));
}

TEST_F(CsvDatasetTest, ACompressedTableIsRead) {
  const std::string text = "a,b\n1,2\n4,5\n";
  const gzFile file = gzopen(options_.path.c_str(), "wb");
  ASSERT_NE(file, nullptr);
  EXPECT_EQ(gzwrite(file, text.data(), static_cast<unsigned>(text.size())),
            static_cast<int>(text.size()));
  EXPECT_EQ(gzclose(file), Z_OK);
  dataset_ = LoadCsvDataset(options_);
  ASSERT_TRUE(dataset_.ok()) << dataset_.status();
  EXPECT_EQ((*dataset_)->size(), 2);
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(*files_, options_.path));
  bytes.resize(bytes.size() - 6);
  EXPECT_THAT(ErrorOf(bytes), HasSubstr("is damaged"));
}

}  // namespace
}  // namespace shoal
