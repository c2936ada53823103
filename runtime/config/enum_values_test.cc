#include "runtime/config/enum_values.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "proto/v1/run_config.pb.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

ExpandedText Expand(const std::string& text) {
  return ExpandEnumValues(text, *v1::RunConfig::descriptor());
}

std::string TextOf(const std::string& text) {
  const ExpandedText expanded = Expand(text);
  EXPECT_EQ(expanded.error, "") << text;
  return expanded.text;
}

TEST(EnumValuesTest, AShortNameIsThatOfItsField) {
  EXPECT_EQ(TextOf("data { format: idx }"), "data { format: FORMAT_IDX }");
  EXPECT_EQ(TextOf("data{format:CSV}"), "data{format:FORMAT_CSV}");
  EXPECT_EQ(TextOf("optimizer < schedule: < kind: cosine > >"),
            "optimizer < schedule: < kind: KIND_COSINE > >");
  EXPECT_EQ(TextOf("model { layer { dense { } } layer { activation { kind: relu } } }"),
            "model { layer { dense { } } layer { activation { kind: ACTIVATION_KIND_RELU } } }");
}

TEST(EnumValuesTest, MessagesOfAListAreFollowed) {
  EXPECT_EQ(TextOf("model { layer: [ { flatten {} }, { activation { kind: elu } } ] }"),
            "model { layer: [ { flatten {} }, { activation { kind: ACTIVATION_KIND_ELU } } ] }");
  EXPECT_EQ(TextOf("model { layer [ { dense { units: 1 activation: relu } } ] } seed: 1"),
            "model { layer [ { dense { units: 1 activation: ACTIVATION_KIND_RELU } } ] } seed: 1");
}

TEST(EnumValuesTest, AllElseStaysAsItIs) {
  for (const char* text : {
           "data { format: FORMAT_IDX }",
           "data { format: FORMAT_UNSPECIFIED }",
           "data { format: 7 directory: \"idx { \\\" \" 'format: idx' }",
           "name: \"mine\"  # format: idx }\nseed: 1",
           "optimizer { learning_rate: -1.5e-3 clip_by_value: 1e+5, schedule { rate: .5; end: -inf "
           "} }",
           "optimizer { schedule { boundary: [1, 2] boundary: 3 value: [0.5, 1.] } }",
           "seed: 0x10 batch_size: 010 max_steps: 18446744073709551615",
           "optimizer { learning_rate: inf clip_by_value: -nan } sync { sync_replicas: t }",
           "model { layer { concat { axis: -0x1 } } } name: \"a\" \"b\"",
           "name \"mine\" } seed",
           "",
       }) {
    EXPECT_EQ(TextOf(text), text);
  }
}

TEST(EnumValuesTest, AnErrorNamesWhatIsKnownAndItsLine) {
  const ExpandedText value = Expand("seed: 1\ndata {\n  format: xml\n}\nnonsense: 1");
  EXPECT_THAT(value.error, HasSubstr("format: unknown value \"xml\"; known are idx, synthetic_"));
  EXPECT_EQ(value.error_line, 2);
  const ExpandedText field = Expand("seed: 1\noptimizer { learning_rat: 1 }");
  EXPECT_EQ(field.error,
            "OptimizerConfig has no field \"learning_rat\"; did you mean learning_rate?");
  EXPECT_EQ(field.error_line, 1);
  EXPECT_THAT(Expand("data { format: idx").error, HasSubstr("is a } missing?"));
}

TEST(EnumValuesTest, AValueOfAnotherKindIsNamedWithTheKindThatIsWanted) {
  EXPECT_EQ(Expand("batch_size: many").error,
            "batch_size: a whole number >= 0 of at most 32 bits is wanted, not \"many\"");
  EXPECT_EQ(Expand("batch_size: -3").error,
            "batch_size: a whole number >= 0 of at most 32 bits is wanted, not \"-3\"");
  EXPECT_EQ(Expand("batch_size: 4294967296").error,
            "batch_size: a whole number >= 0 of at most 32 bits is wanted, not \"4294967296\"");
  EXPECT_EQ(Expand("batch_size: 0.5").error,
            "batch_size: a whole number >= 0 of at most 32 bits is wanted, not \"0.5\"");
  EXPECT_EQ(Expand("max_steps: \"9\"").error,
            "max_steps: a whole number >= 0 of at most 64 bits is wanted, not \"9\"");
  EXPECT_EQ(Expand("optimizer { learning_rate: fast }").error,
            "learning_rate: a number is wanted, not \"fast\"");
  EXPECT_EQ(Expand("sync { sync_replicas: maybe }").error,
            "sync_replicas: true or false is wanted, not \"maybe\"");
  EXPECT_EQ(Expand("name: mlp").error,
            "name: text in quotes is wanted, not \"mlp\"; write \"mlp\"");
  EXPECT_EQ(Expand("name: 3").error, "name: text in quotes is wanted, not \"3\"; write \"3\"");
  EXPECT_EQ(Expand("model: \"mlp\"").error,
            "model: \"mlp\" is not a ModelConfig; write model { ... }");
  EXPECT_THAT(Expand("data { format: \"idx\" }").error, HasSubstr("format: one of idx, "));
}

TEST(EnumValuesTest, AnEndThatIsMissingIsNamedAtTheFieldThatFollows) {
  const ExpandedText text = Expand("model {\n  name: \"mlp\"\nmax_steps: 9\n");
  EXPECT_EQ(text.error,
            "ModelConfig has no field \"max_steps\", but RunConfig has one; is a } missing before "
            "it?");
  EXPECT_EQ(text.error_line, 2);
}

TEST(EnumValuesTest, TextThatIsNotATextProtoIsReadToItsEnd) {
  for (const char* text : {"}}}", "]", "[a.b/c] { x: y }", "\"", "'\\", "data [", "format { idx",
                           "seed: -", "data: { format: idx ] }", ": : 3 { 4 }"}) {
    Expand(text);
  }
  EXPECT_EQ(TextOf("seed { nothing { is: known } }"), "seed { nothing { is: known } }");
}

}  // namespace
}  // namespace shoal
