#include "ml/device/attributes.h"

#include "gtest/gtest.h"

namespace shoal {
namespace {

TEST(AttributesTest, KeepEachTypeAndFallBackToTheDefault) {
  Attributes attributes{{"group", int64_t{2}},
                        {"epsilon", 1e-3},
                        {"training", true},
                        {"activation", std::string("relu")},
                        {"strides", std::vector<int64_t>{2, 1}}};
  EXPECT_EQ(attributes.GetInt("group", 1), 2);
  EXPECT_EQ(attributes.GetDouble("epsilon", 0), 1e-3);
  EXPECT_TRUE(attributes.GetBool("training", false));
  EXPECT_EQ(attributes.GetString("activation", "none"), "relu");
  EXPECT_EQ(attributes.GetInts("strides", {}), (std::vector<int64_t>{2, 1}));
  EXPECT_EQ(attributes.GetInt("axis", 7), 7);
  EXPECT_EQ(attributes.GetInt("training", 7), 7);
  EXPECT_EQ(attributes.GetDouble("group", 0), 2.0);
}

TEST(AttributesTest, PrintInTheOrderOfNames) {
  Attributes attributes{{"strides", std::vector<int64_t>{2, 1}}};
  attributes.Set("group", int64_t{1});
  EXPECT_EQ(attributes.ToString(), "group=1 strides=[2,1]");
  attributes.Erase("group");
  EXPECT_EQ(attributes.ToString(), "strides=[2,1]");
}

}  // namespace
}  // namespace shoal
