#include "ml/data/ids/id_options.h"

#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using Config = v1::DataConfig;

Config Parse(const std::string& text) {
  Config config;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &config)) << text;
  return config;
}

TEST(IdOptionsTest, EachEntryIsAColumn) {
  const std::vector<IdColumn> columns =
      IdColumnsOf(Parse("ids { column: 'user' missing: -1 }"
                        "ids { column: 'tags' name: 't' words: true separator: '|' weights: ':'"
                        "  missing_words: 'NULL' missing_words: 'None' }"));
  ASSERT_EQ(columns.size(), 2u);
  EXPECT_EQ(columns[0].column, "user");
  EXPECT_EQ(columns[0].missing, -1);
  EXPECT_EQ(columns[0].entry, "data.ids[0]");
  EXPECT_EQ(FieldNameOf(columns[0], "user"), "user");
  EXPECT_FALSE(columns[1].missing.has_value());
  EXPECT_TRUE(columns[1].words);
  EXPECT_EQ(columns[1].separator, "|");
  EXPECT_EQ(columns[1].weights, ":");
  EXPECT_THAT(columns[1].missing_words, ElementsAre("NULL", "None"));
  EXPECT_EQ(FieldNameOf(columns[1], "tags"), "t");
}

TEST(IdOptionsTest, GoodOptionsFitTheirFormat) {
  EXPECT_OK(
      CheckIdOptions(Config::FORMAT_CSV, Parse("ids { column: 'c*' words: true separator: ' e ' }"
                                               "ids { column: '3' negative: true weights: ':' }"
                                               "numbers: 'n*'")));
  EXPECT_OK(
      CheckIdOptions(Config::FORMAT_NPY, Parse("ids { column: 'user' missing: 0 weights: 'w1' }")));
  EXPECT_OK(
      CheckIdOptions(Config::FORMAT_TFRECORD,
                     Parse("ids { column: 'user' words: true weights: 'w1' missing_words: 'NULL' } "
                           "numbers: 'age'")));
  EXPECT_OK(CheckIdOptions(Config::FORMAT_IDX, Config()));
}

TEST(IdOptionsTest, WrongOptionsAreNamedWithTheRemedy) {
  const struct {
    Config::Format format;
    std::string config;
    std::string error;
  } kCases[] = {
      {Config::FORMAT_CSV, "ids {}", "data.ids[0].column: is empty; name a column"},
      {Config::FORMAT_CSV, "ids { column: 'a*b' }", "data.ids[0].column: may have one '*'"},
      {Config::FORMAT_CSV, "ids { column: 'a*' name: 'b' }", "data.ids[0].name: would be the name"},
      {Config::FORMAT_CSV, "ids { column: 'a' } ids { column: 'b' name: 'a' }",
       "data.ids[1].name: \"a\" is the name of another field of the data"},
      {Config::FORMAT_CSV, "ids { column: 'label' }",
       "data.ids[0].name: \"label\" is the name of another field of the data"},
      {Config::FORMAT_CSV, "ids { column: 'a' words: true missing: 0 }",
       "data.ids[0].missing: is for numbers, but ids are words; use missing_words"},
      {Config::FORMAT_CSV, "ids { column: 'a' missing_words: 'NULL' }",
       "data.ids[0].missing_words: is for words, but ids are numbers; use missing, or set words"},
      {Config::FORMAT_CSV, "ids { column: 'a' words: true missing_words: '' }",
       "data.ids[0].missing_words: has an empty text, which is never an id; drop it"},
      {Config::FORMAT_CSV, "ids { column: 'a' words: true separator: ' ' missing_words: 'no id' }",
       "data.ids[0].missing_words: \"no id\" has the separator of the ids, so no id is this text"},
      {Config::FORMAT_CSV, "ids { column: 'a' words: true negative: true }",
       "data.ids[0].negative: is for numbers"},
      {Config::FORMAT_CSV, "ids { column: 'a' separator: '-' }",
       "data.ids[0].separator: \"-\" must be a text that no number and no quote has"},
      {Config::FORMAT_CSV, "ids { column: 'a' words: true weights: '.' }",
       "data.ids[0].weights: \".\" must be a text"},
      {Config::FORMAT_CSV, "ids { column: 'a' separator: ':' weights: ':' }",
       "data.ids[0].weights: is the separator, too; use two texts, as in 7:0.5|8:1"},
      {Config::FORMAT_NPY, "ids { column: 'a*' }", "\"a*\" stands for many columns"},
      {Config::FORMAT_NPY, "ids { column: 'a' words: true }", "data.ids[0].words: is for csv and"},
      {Config::FORMAT_TFRECORD, "ids { column: 'a' separator: '|' }",
       "data.ids[0].separator: is for cells of csv only; drop it"},
      {Config::FORMAT_TFRECORD, "numbers: 'a'",
       "data.numbers: is for tables, and for records with"},
      {Config::FORMAT_TFRECORD, "ids { column: 'a' } tfrecord { input: 'x' }",
       "data.tfrecord.input: is not for records with ids"},
  };
  for (const auto& one : kCases) {
    EXPECT_THAT(CheckIdOptions(one.format, Parse(one.config)),
                StatusIs(absl::StatusCode::kInvalidArgument, HasSubstr(one.error)))
        << one.config;
  }
}

}  // namespace
}  // namespace shoal
