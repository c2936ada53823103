#include "base/json.h"

#include <limits>
#include <map>
#include <optional>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::Pair;

TEST(JsonTest, FieldsKeepTheirOrder) {
  JsonObject json;
  json.Add("z", uint64_t{18446744073709551615u})
      .Add("a", absl::string_view("b"))
      .Add("none", std::optional<double>())
      .AddIfPresent("absent", std::optional<double>())
      .AddJson("list", "[1, 2]");
  EXPECT_EQ(json.ToString(),
            "{\"z\": 18446744073709551615, \"a\": \"b\", \"none\": null, \"list\": [1, 2]}");
  EXPECT_EQ(JsonObject().ToString(), "{}");
}

TEST(JsonTest, NumbersHaveTheShortestTextThatReadsBack) {
  JsonObject json;
  json.Add("one", 1.0).Add("tenth", 0.1).Add("tiny", 1e-12);
  json.Add("inf", std::numeric_limits<double>::infinity());
  EXPECT_EQ(json.ToString(), "{\"one\": 1, \"tenth\": 0.1, \"tiny\": 1e-12, \"inf\": null}");
}

TEST(JsonTest, EveryTextIsReadBack) {
  for (const std::string text : {"", "plain", "two\nlines\ttab", "quo\"te back\\slash",
                                 "\x01 control", "größe ∑ 🙂", "/"}) {
    const std::string json = JsonObject().Add(text, absl::string_view(text)).ToString();
    ASSERT_OK_AND_ASSIGN(const auto fields, ParseFlatJson(json));
    EXPECT_THAT(fields, ElementsAre(Pair(text, text))) << json;
  }
  EXPECT_EQ(JsonString("\xff"), "\"\xef\xbf\xbd\"");
}

TEST(JsonTest, AFlatObjectIsRead) {
  ASSERT_OK_AND_ASSIGN(const auto fields,
                       ParseFlatJson(R"( { "i" : 18446744073709551615,"d":-2.5e-3,
                                          "b":true,"n":null,"s":"\u00e9\n" } )"));
  EXPECT_EQ(fields.at("i"), "18446744073709551615");
  EXPECT_EQ(std::stod(fields.at("d")), -2.5e-3);
  EXPECT_EQ(fields.at("b"), "true");
  EXPECT_EQ(fields.at("n"), "null");
  EXPECT_EQ(fields.at("s"), "é\n");
}

TEST(JsonTest, AllElseIsRefused) {
  for (const char* text : {"", "[]", "1", "{", "{\"a\": 1", "{\"a\": 1}x", "{\"a\": [1]}",
                           "{\"a\": {}}", "{a: 1}", "{\"a\": \"\\q\"}", "{\"a\": 1,}"}) {
    EXPECT_FALSE(ParseFlatJson(text).ok()) << text;
  }
}

}  // namespace
}  // namespace shoal
