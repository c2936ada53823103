#include "runtime/config/trained_tables.h"

#include <string>
#include <vector>

#include "google/protobuf/text_format.h"
#include "gtest/gtest.h"

#include "proto/v1/run_config.pb.h"
#include "proto/v1/variable.pb.h"

namespace shoal {
namespace {

// Returns the error of a run with the variable "top/weights" and the table "user".
std::string Refusal(const std::string& text) {
  v1::RunConfig run;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &run)) << text;
  std::vector<v1::VariableSpec> variables(2);
  variables[0].set_name("top/weights");
  variables[1].set_name("user");
  variables[1].mutable_table()->set_buckets(16);
  return std::string(CheckTablesAreTrained(run, variables).message());
}

TEST(TrainedTablesTest, AFrozenGroupHasNoTables) {
  EXPECT_EQ(Refusal("optimizer { group { variables: 'to.*' frozen: true } "
                    "group { variables: 'u.*' frozen: true } }"),
            "optimizer.group[1].variables: \"u.*\" matches the table \"user\", which cannot be "
            "frozen; to train it put group { variables: \"user\" } before this group, to keep the "
            "values of its rows give learning_rate_multiplier: 0 instead of frozen");
  EXPECT_EQ(Refusal("optimizer { group { variables: 'user' } "
                    "group { variables: '.*' frozen: true } }"),
            "")
      << "an earlier group has the table";
}

TEST(TrainedTablesTest, AGroupWithWeightDecayHasNoTables) {
  EXPECT_EQ(Refusal("optimizer { group { variables: '.*' weight_decay: 0.5 } }"),
            "optimizer.group[0].variables: \".*\" matches the table \"user\", which has no weight "
            "decay; put group { variables: \"user\" } before this group, and set optimizer { l2 } "
            "of the table where you want L2");
  EXPECT_EQ(Refusal("optimizer { group { variables: '.*' weight_decay: 0 } }"), "");
}

TEST(TrainedTablesTest, TrainableMatchesEachTable) {
  EXPECT_EQ(Refusal("trainable: 'top/.*'"),
            "trainable: leaves out the table \"user\", which cannot be frozen; add \"user\", and "
            "optimizer { group { variables: \"user\" learning_rate_multiplier: 0 } } to keep the "
            "values of its rows");
  EXPECT_EQ(Refusal("trainable: 'top/.*' trainable: 'user'"), "");
  EXPECT_EQ(Refusal("trainable: 'user'"), "") << "dense variables may be frozen";
  EXPECT_EQ(Refusal(""), "");
}

}  // namespace
}  // namespace shoal
