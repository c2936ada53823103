#include "ml/data/ids/id_column.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "ml/data/ids/text_hash.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

TEST(IdColumnTest, NumbersOf64BitsAreKeysAsTheyAre) {
  IdColumn ids;
  IdList list;
  EXPECT_EQ(AddIds("17", ids, &list), "");
  EXPECT_EQ(AddIds(" 0 ", ids, &list), "");
  EXPECT_EQ(AddIds("18446744073709551615", ids, &list), "");
  EXPECT_EQ(AddIds("9223372036854775808", ids, &list), "");
  EXPECT_THAT(list.keys, ElementsAre(17, 0, -1, INT64_MIN));
}

TEST(IdColumnTest, AnEmptyCellHasNoKey) {
  IdColumn ids;
  IdList list;
  EXPECT_EQ(AddIds("", ids, &list), "");
  EXPECT_EQ(AddIds("  ", ids, &list), "");
  ids.words = true;
  EXPECT_EQ(AddIds("", ids, &list), "");
  ids.separator = "|";
  EXPECT_EQ(AddIds("||", ids, &list), "");
  EXPECT_THAT(list.keys, IsEmpty());
}

TEST(IdColumnTest, WordsAreHashedWithoutTheSpaceAroundThem) {
  IdColumn ids;
  ids.words = true;
  IdList list;
  EXPECT_EQ(AddIds("blue", ids, &list), "");
  EXPECT_EQ(AddIds(" blue", ids, &list), "");
  EXPECT_EQ(AddIds("17", ids, &list), "");
  const auto blue = static_cast<int64_t>(HashText("blue"));
  EXPECT_THAT(list.keys, ElementsAre(blue, blue, static_cast<int64_t>(HashText("17"))));
}

TEST(IdColumnTest, AListHasItsIdsInOrder) {
  IdColumn ids;
  ids.separator = "::";
  IdList list;
  EXPECT_EQ(AddIds("3::1 ::3::", ids, &list), "");
  EXPECT_THAT(list.keys, ElementsAre(3, 1, 3));
}

TEST(IdColumnTest, ATextThatIsNotAnIdIsNamedWithTheRemedy) {
  IdColumn ids;
  IdList list;
  for (const char* text : {"blue", "1.0", "1|2", "18446744073709551616", "-9223372036854775809"}) {
    EXPECT_THAT(AddIds(text, ids, &list), HasSubstr("not a whole number of 64 bits")) << text;
  }
  EXPECT_THAT(AddIds("-1", ids, &list), HasSubstr("leave a missing id out"));
  EXPECT_THAT(AddId(-1, 1, ids, &list), HasSubstr("ids are not negative"));
  EXPECT_THAT(list.keys, IsEmpty());
  ids.negative = true;
  EXPECT_EQ(AddIds("-1", ids, &list), "");
  EXPECT_EQ(AddId(-2, 1, ids, &list), "");
  EXPECT_THAT(list.keys, ElementsAre(-1, -2));
}

TEST(IdColumnTest, TheRemedyNamesTheEntryOfTheRunFile) {
  IdColumn ids;
  ids.entry = "data.ids[2]";
  IdList list;
  EXPECT_THAT(AddIds("blue", ids, &list), HasSubstr("(data.ids[2]: set words: true for texts"));
  EXPECT_THAT(AddIds("-1", ids, &list), HasSubstr("(data.ids[2]: or set missing: -1 if"));
}

TEST(IdColumnTest, ANumberThatStandsForNoIdIsLeftOut) {
  IdColumn ids;
  ids.missing = -1;
  ids.separator = "|";
  IdList list;
  EXPECT_EQ(AddIds("-1|4|-1|0", ids, &list), "");
  EXPECT_EQ(AddIds("18446744073709551615", ids, &list), "");  // Its 64 bits are those of -1.
  EXPECT_THAT(list.keys, ElementsAre(4, 0, -1));
  EXPECT_THAT(AddIds("-2", ids, &list), HasSubstr("ids are not negative"));
}

TEST(IdColumnTest, AWordThatStandsForNoIdIsLeftOut) {
  IdColumn ids;
  ids.words = true;
  ids.missing_words = {"NULL", "\\N"};
  ids.separator = "|";
  IdList list;
  EXPECT_EQ(AddIds("NULL", ids, &list), "");
  EXPECT_EQ(AddIds("\\N| NULL |blue|null", ids, &list), "");
  EXPECT_EQ(AddWord("NULL", 1, ids, &list), "");
  const auto blue = static_cast<int64_t>(HashText("blue"));
  EXPECT_THAT(list.keys, ElementsAre(blue, static_cast<int64_t>(HashText("null"))));
  ids.weights = ":";
  list.Clear();
  EXPECT_EQ(AddIds("NULL:2|NULL|blue:0.5", ids, &list), "");
  EXPECT_THAT(list.keys, ElementsAre(blue));
  EXPECT_THAT(list.weights, ElementsAre(0.5f));
}

TEST(IdColumnTest, AWeightStandsBehindEachId) {
  IdColumn ids;
  ids.separator = "|";
  ids.weights = ":";
  IdList list;
  EXPECT_EQ(AddIds("7:0.5| 8 : -2 ||9:1e3", ids, &list), "");
  EXPECT_THAT(list.keys, ElementsAre(7, 8, 9));
  EXPECT_THAT(list.weights, ElementsAre(0.5f, -2, 1000));
  ids.words = true;
  list.Clear();
  EXPECT_EQ(AddIds("a:b:2", ids, &list), "");  // The weight is behind the last colon.
  EXPECT_THAT(list.keys, ElementsAre(static_cast<int64_t>(HashText("a:b"))));
  EXPECT_THAT(list.weights, ElementsAre(2));
  ids.words = false;
  EXPECT_THAT(AddIds("7|8:1", ids, &list), HasSubstr("7 has no weight; write 7:1"));
  EXPECT_THAT(AddIds("7:", ids, &list), HasSubstr("the weight  is not a finite number"));
  EXPECT_THAT(AddIds("7:nan", ids, &list), HasSubstr("the weight nan is not a finite number"));
  EXPECT_THAT(AddIds(":1", ids, &list), HasSubstr("not a whole number"));
}

}  // namespace
}  // namespace shoal
