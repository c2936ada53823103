#include "ml/data/ids/record_ids.h"

#include <cmath>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/status_matchers.h"
#include "ml/data/ids/text_hash.h"
#include "ml/data/records/tf_example.pb.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

class RecordIdsTest : public ::testing::Test {
 protected:
  RecordIdsTest() {
    ids_.column = "item";
    ids_.entry = "data.ids[0]";
  }

  tf::Feature& Feature(const std::string& name) {
    return (*record_.mutable_features()->mutable_feature())[name];
  }
  void AddIntegers(const std::string& name, const std::vector<int64_t>& values) {
    for (const int64_t value : values) Feature(name).mutable_int64_list()->add_value(value);
  }
  void AddFloats(const std::string& name, const std::vector<float>& values) {
    for (const float value : values) Feature(name).mutable_float_list()->add_value(value);
  }
  std::string Error() { return std::string(AddRecordIds(record_, ids_, &list_).message()); }

  tf::Example record_;
  IdColumn ids_;
  IdList list_;
};

TEST_F(RecordIdsTest, IntegersAreKeysAndByteStringsAreWords) {
  AddIntegers("item", {3, 0, 3});
  EXPECT_OK(AddRecordIds(record_, ids_, &list_));
  EXPECT_THAT(list_.keys, ElementsAre(3, 0, 3));
  list_.Clear();
  Feature("item").mutable_bytes_list()->add_value("blue");
  Feature("item").mutable_bytes_list()->add_value("");
  ids_.words = true;
  EXPECT_OK(AddRecordIds(record_, ids_, &list_));
  EXPECT_THAT(list_.keys, ElementsAre(static_cast<int64_t>(HashText("blue"))));
}

TEST_F(RecordIdsTest, AMissingOrEmptyFeatureHasNoIds) {
  EXPECT_OK(AddRecordIds(record_, ids_, &list_));
  Feature("item").mutable_float_list();
  EXPECT_OK(AddRecordIds(record_, ids_, &list_));
  EXPECT_THAT(list_.keys, IsEmpty());
}

TEST_F(RecordIdsTest, WeightsAreOfAnotherFeature) {
  AddIntegers("item", {3, -1, 4});
  AddFloats("rating", {0.5f, 9, 2});
  ids_.weights = "rating";
  ids_.missing = -1;
  EXPECT_OK(AddRecordIds(record_, ids_, &list_));
  EXPECT_THAT(list_.keys, ElementsAre(3, 4));
  EXPECT_THAT(list_.weights, ElementsAre(0.5f, 2));
}

TEST_F(RecordIdsTest, AFeatureThatDoesNotFitIsNamed) {
  AddIntegers("item", {3, -1});
  EXPECT_THAT(Error(), HasSubstr("feature \"item\" has the id -1, and ids are not negative"));
  ids_.words = true;
  EXPECT_THAT(Error(), HasSubstr("has integers, not the byte strings of words; drop words "
                                 "(data.ids[0])"));
  ids_.words = false;
  ids_.negative = true;
  ids_.weights = "rating";
  EXPECT_THAT(Error(), HasSubstr("feature \"rating\" has 0 floats, but feature \"item\" has 2 ids; "
                                 "write one weight for each id (data.ids[0].weights)"));
  AddFloats("rating", {1, NAN});
  EXPECT_THAT(Error(), HasSubstr("whose weight nan is not finite"));
  Feature("item").mutable_bytes_list()->add_value("blue");
  EXPECT_THAT(Error(), HasSubstr("has byte strings, not integers; set words: true"));
  AddFloats("item", {1});
  EXPECT_THAT(Error(), HasSubstr("has floats, not integers; name floats in data.numbers"));
}

TEST_F(RecordIdsTest, NumbersAreFloatsOrIntegers) {
  AddIntegers("age", {30});
  AddFloats("place", {0.5f, 1.5f});
  std::vector<float> numbers;
  EXPECT_OK(AddRecordNumbers(record_, "age", &numbers));
  EXPECT_OK(AddRecordNumbers(record_, "place", &numbers));
  EXPECT_THAT(numbers, ElementsAre(30, 0.5f, 1.5f));
  const auto error = [&](const std::string& name) {
    return std::string(AddRecordNumbers(record_, name, &numbers).message());
  };
  EXPECT_THAT(error("size"), HasSubstr("feature \"size\" is missing; write a number for it"));
  Feature("word").mutable_bytes_list()->add_value("blue");
  EXPECT_THAT(error("word"), HasSubstr("has byte strings, not numbers; name it in data.ids"));
  AddFloats("gone", {INFINITY});
  EXPECT_THAT(error("gone"), HasSubstr("has the value inf, which is not finite"));
}

}  // namespace
}  // namespace shoal
