#include "ml/data/data_rules.h"

#include <cmath>
#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

DataRules Binary() {
  DataRules rules;
  rules.binary_loss = "hinge";
  return rules;
}

TEST(DataRulesTest, ABinaryLossAllowsTwoClasses) {
  EXPECT_EQ(LimitClasses(10, DataRules()), 10);
  EXPECT_EQ(LimitClasses(10, Binary()), 2);
  EXPECT_EQ(LimitClasses(1, Binary()), 1);
}

TEST(DataRulesTest, TheErrorOfALabelNamesTheLossOrTheNumberOfClasses) {
  EXPECT_EQ(WantedClass(10, DataRules(), "; set more"),
            "it must be at least 0 and below the number of classes, 10; set more");
  EXPECT_EQ(WantedClass(1, Binary(), "; set more"),
            "it must be at least 0 and below the number of classes, 1; set more");
  EXPECT_EQ(WantedClass(2, Binary(), "; set more"),
            "it must be 0 or 1, because model.loss is hinge (sparse_softmax_cross_entropy takes "
            "more classes)");
}

TEST(DataRulesTest, ABinaryLossTakesNumbersFrom0To1) {
  EXPECT_EQ(WantedTarget(3, DataRules()), "");
  for (const float target : {0.0f, 0.25f, 1.0f}) EXPECT_EQ(WantedTarget(target, Binary()), "");
  for (const float target : {-0.5f, 3.0f, std::nanf("")}) {
    EXPECT_THAT(WantedTarget(target, Binary()),
                HasSubstr("it must be at least 0 and at most 1, because model.loss is hinge ("));
  }
}

TEST(DataRulesTest, AMeanTakesNoNegativeWeight) {
  EXPECT_FALSE(DataRules().TakesMean("seen"));
  EXPECT_EQ(WrongWeight({}), "");
  EXPECT_EQ(WrongWeight({0.0f, 2.5f}), "");
  EXPECT_EQ(WrongWeight({1.0f, -0.5f}),
            "whose weight -0.5 is negative, but the model takes the mean of these rows; use "
            "weights of at least 0, or pooling: sum");
}

}  // namespace
}  // namespace shoal
