#include "runtime/config/text_place.h"

#include <string>

#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {
namespace {

const google::protobuf::Descriptor& Run() { return *v1::RunConfig::descriptor(); }

// The place of the '|' in a run file.
TextPlace PlaceIn(const std::string& text) { return FindTextPlace(text, text.find('|'), Run()); }

std::string TypeIn(const std::string& text) {
  const TextPlace place = PlaceIn(text);
  return place.type == nullptr ? "" : place.type->name();
}

std::string WordIn(const std::string& text) {
  const TextPlace place = PlaceIn(text);
  if (place.last_word == absl::string_view::npos) return "";
  return text.substr(place.last_word, text.find_first_of(" |", place.last_word) - place.last_word);
}

TEST(TextPlaceTest, TypeIsThatOfTheInnermostOpenMessage) {
  EXPECT_EQ(TypeIn("|"), "RunConfig");
  EXPECT_EQ(TypeIn("name: \"a\" data { format: IDX | }"), "DataConfig");
  EXPECT_EQ(TypeIn("optimizer < schedule: < kind: COSINE | > >"), "ScheduleConfig");
  EXPECT_EQ(TypeIn("optimizer { schedule { } |"), "OptimizerConfig");
  EXPECT_EQ(TypeIn("model { layer { dense { } } layer { activation { kind: RELU | } } }"),
            "ActivationLayer");
  EXPECT_EQ(TypeIn("model { layer: [ { flatten {} }, { activation { | } } ] }"), "ActivationLayer");
}

TEST(TextPlaceTest, BracesInTextsAndCommentsOpenNothing) {
  EXPECT_EQ(TypeIn("name: \"data { \\\" {\" |"), "RunConfig");
  EXPECT_EQ(TypeIn("name: 'data {' |"), "RunConfig");
  EXPECT_EQ(TypeIn("data { # }\n |"), "DataConfig");
}

TEST(TextPlaceTest, WhatIsNoMessageHasNoType) {
  EXPECT_EQ(TypeIn("nonsense { |"), "");
  EXPECT_EQ(TypeIn("nonsense { inner { } |"), "");
  EXPECT_EQ(TypeIn("nonsense { } |"), "RunConfig");
  EXPECT_EQ(TypeIn("} data { |"), "DataConfig");
}

TEST(TextPlaceTest, LastWordIsNoneOfTextsAndComments) {
  EXPECT_EQ(WordIn("data { format: IDX | }"), "IDX");
  EXPECT_EQ(WordIn("data { format: IDX # CSV\n | }"), "IDX");
  EXPECT_EQ(WordIn("name: \"mine\" |"), "name:");
  EXPECT_EQ(WordIn(" |"), "");
}

TEST(TextPlaceTest, ColumnsCountTabsAsTheTokenizerDoes) {
  const std::string text = "ab\n\tc\td\n";
  EXPECT_EQ(TextPosition(text, 0, 1), 1u);
  EXPECT_EQ(TextPosition(text, 1, 8), 4u);
  EXPECT_EQ(TextPosition(text, 1, 16), 6u);
  EXPECT_EQ(TextPosition(text, 0, 100), 2u);
  EXPECT_EQ(TextPosition(text, 9, 0), text.size());
}

}  // namespace
}  // namespace shoal
