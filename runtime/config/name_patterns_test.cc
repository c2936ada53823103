#include "runtime/config/name_patterns.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

std::string ErrorOf(const absl::Status& status) { return std::string(status.message()); }

TEST(NamePatternsTest, AWholeNameMustMatchOneOfThem) {
  const auto patterns = NamePatterns::Create("trainable", {"logits/.*", "conv[12]/bias"});
  ASSERT_TRUE(patterns.ok()) << patterns.status();
  EXPECT_TRUE(patterns->Matches("logits/weights"));
  EXPECT_TRUE(patterns->Matches("conv2/bias"));
  EXPECT_FALSE(patterns->Matches("conv3/bias"));
  EXPECT_FALSE(patterns->Matches("my_logits/weights"));
  EXPECT_TRUE(NamePatterns::Create("trainable", {})->empty());
}

TEST(NamePatternsTest, MistakesAreNamed) {
  EXPECT_THAT(ErrorOf(NamePatterns::Create("trainable", {"a("}).status()),
              HasSubstr("trainable: \"a(\" is not a regular expression (missing ): a()"));
  const auto patterns = NamePatterns::Create("trainable", {"a/.*", "logit/.*"});
  EXPECT_EQ(ErrorOf(patterns->CheckAllAreUsed("trainable", {"a/w", "logits/w"})),
            "trainable: \"logit/.*\" matches the whole name of none of the variables a/w, "
            "logits/w; correct it, e.g. \"logits/.*\"");
  EXPECT_TRUE(patterns->CheckAllAreUsed("trainable", {"a/w", "logit/w"}).ok());
  EXPECT_THAT(ErrorOf(patterns->CheckAllAreUsed("trainable", {"0.weight", "2.bias"})),
              HasSubstr("correct it, e.g. \"2.bias\""));
}

TEST(NameMapTest, TheFirstRuleThatMatchesCounts) {
  const auto map =
      NameMap::Create("init_map", {"logits/.*=", "body/(.*)=resnet/v1/\\1", "body/x=y", "a|ab=c"});
  ASSERT_TRUE(map.ok()) << map.status();
  EXPECT_EQ(map->Map("logits/weights"), "");
  EXPECT_EQ(map->Map("body/x"), "resnet/v1/x");
  EXPECT_EQ(map->Map("other"), "other");
  EXPECT_EQ(map->Map("ab"), "c");
}

TEST(NameMapTest, MistakesAreNamed) {
  EXPECT_THAT(ErrorOf(NameMap::Create("init_map", {"body"}).status()),
              HasSubstr("init_map: \"body\" is not EXPRESSION=NAME"));
  EXPECT_THAT(ErrorOf(NameMap::Create("init_map", {"body/(.*)=x/\\2"}).status()),
              HasSubstr("init_map: \"body/(.*)=x/\\\\2\": "));
  EXPECT_THAT(ErrorOf(NameMap::Create("init_map", {"[=x"}).status()),
              HasSubstr("is not a regular expression"));
}

}  // namespace
}  // namespace shoal
