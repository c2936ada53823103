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
  std::vector<int64_t> keys;
  EXPECT_EQ(AddIds("17", ids, &keys), "");
  EXPECT_EQ(AddIds(" 0 ", ids, &keys), "");
  EXPECT_EQ(AddIds("18446744073709551615", ids, &keys), "");
  EXPECT_EQ(AddIds("9223372036854775808", ids, &keys), "");
  EXPECT_THAT(keys, ElementsAre(17, 0, -1, INT64_MIN));
}

TEST(IdColumnTest, AnEmptyCellHasNoKey) {
  IdColumn ids;
  std::vector<int64_t> keys;
  EXPECT_EQ(AddIds("", ids, &keys), "");
  EXPECT_EQ(AddIds("  ", ids, &keys), "");
  ids.words = true;
  EXPECT_EQ(AddIds("", ids, &keys), "");
  ids.separator = "|";
  EXPECT_EQ(AddIds("||", ids, &keys), "");
  EXPECT_THAT(keys, IsEmpty());
}

TEST(IdColumnTest, WordsAreHashedWithoutTheSpaceAroundThem) {
  IdColumn ids;
  ids.words = true;
  std::vector<int64_t> keys;
  EXPECT_EQ(AddIds("blue", ids, &keys), "");
  EXPECT_EQ(AddIds(" blue", ids, &keys), "");
  EXPECT_EQ(AddIds("17", ids, &keys), "");
  const auto blue = static_cast<int64_t>(HashText("blue"));
  EXPECT_THAT(keys, ElementsAre(blue, blue, static_cast<int64_t>(HashText("17"))));
}

TEST(IdColumnTest, AListHasItsIdsInOrder) {
  IdColumn ids;
  ids.separator = "::";
  std::vector<int64_t> keys;
  EXPECT_EQ(AddIds("3::1 ::3::", ids, &keys), "");
  EXPECT_THAT(keys, ElementsAre(3, 1, 3));
}

TEST(IdColumnTest, ATextThatIsNoIdIsNamedWithTheRemedy) {
  IdColumn ids;
  std::vector<int64_t> keys;
  for (const char* text : {"blue", "1.0", "1|2", "18446744073709551616", "-9223372036854775809"}) {
    EXPECT_THAT(AddIds(text, ids, &keys), HasSubstr("not a whole number of 64 bits")) << text;
  }
  EXPECT_THAT(AddIds("-1", ids, &keys), HasSubstr("leave a missing id out"));
  EXPECT_THAT(CheckId(-1, ids), HasSubstr("ids are not negative"));
  EXPECT_THAT(keys, IsEmpty());
  ids.negative = true;
  EXPECT_EQ(AddIds("-1", ids, &keys), "");
  EXPECT_EQ(CheckId(-1, ids), "");
  EXPECT_THAT(keys, ElementsAre(-1));
}

}  // namespace
}  // namespace shoal
