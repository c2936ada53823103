#include "runtime/config/wanted_value.h"

#include <string>

#include "google/protobuf/descriptor.h"
#include "gtest/gtest.h"

#include "proto/v1/model_config.pb.h"
#include "proto/v1/run_config.pb.h"

namespace shoal {
namespace {

std::string Wanted(const google::protobuf::Descriptor* message, const std::string& field,
                   const std::string& text) {
  const google::protobuf::FieldDescriptor* found = message->FindFieldByName(field);
  EXPECT_NE(found, nullptr) << field;
  return found == nullptr ? "" : WantedValue(*found, text);
}

TEST(WantedValueTest, ANumberIsWantedWithItsRange) {
  EXPECT_EQ(Wanted(v1::RunConfig::descriptor(), "num_epochs", "many"),
            "a whole number >= 0 of at most 32 bits is wanted, not \"many\"");
  EXPECT_EQ(Wanted(v1::RunConfig::descriptor(), "seed", "-1"),
            "a whole number >= 0 of at most 64 bits is wanted, not \"-1\"");
  EXPECT_EQ(Wanted(v1::LayerNormLayer::descriptor(), "axis", "last"),
            "a whole number of at most 32 bits is wanted, not \"last\"");
  EXPECT_EQ(Wanted(v1::ReshapeLayer::descriptor(), "shape", "x"),
            "a whole number of at most 64 bits is wanted, not \"x\"");
  EXPECT_EQ(Wanted(v1::ModelConfig::descriptor(), "weight_decay", "small"),
            "a number is wanted, not \"small\"");
}

TEST(WantedValueTest, ATruthValueIsTrueOrFalse) {
  EXPECT_EQ(Wanted(v1::SyncOptions::descriptor(), "sync_replicas", "yes"),
            "true or false is wanted, not \"yes\"");
}

TEST(WantedValueTest, TheNamesOfAnEnumAreShortAndTheUnspecifiedOneIsNotListed) {
  EXPECT_EQ(Wanted(v1::ActivationLayer::descriptor(), "kind", "relux"),
            "one of none, relu, sigmoid, tanh, relu6, leaky_relu, elu, gelu, silu, softmax, "
            "softplus is wanted, not \"relux\"");
}

TEST(WantedValueTest, TextIsWantedInQuotes) {
  EXPECT_EQ(Wanted(v1::RunConfig::descriptor(), "out", "runs"),
            "text in quotes is wanted, not \"runs\"");
}

}  // namespace
}  // namespace shoal
