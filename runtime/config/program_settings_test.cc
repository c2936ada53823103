#include "runtime/config/program_settings.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "runtime/config/run_config.h"

namespace shoal {
namespace {

v1::RunConfig Given(const std::string& text) { return *ParseRunConfig(text, "run"); }

TEST(WithSettingsTest, AProgramSetsWhatIsNotGivenElsewhere) {
  const v1::RunConfig settings =
      Given("optimizer { adam { beta1: 0.5 } learning_rate: 0.1 } batch_size: 8 num_epochs: 3");
  const v1::RunConfig alone = WithSettings(Given("program { file: \"a.py\" } seed: 2"), settings);
  EXPECT_EQ(alone.optimizer().adam().beta1(), 0.5);
  EXPECT_EQ(alone.batch_size(), 8u);
  EXPECT_EQ(alone.num_epochs(), 3u);
  EXPECT_EQ(alone.seed(), 2u);
  const v1::RunConfig given = WithSettings(Given("program { file: \"a.py\" } optimizer { adam { "
                                                 "beta2: 0.9 } } batch_size: 16 max_steps: 10"),
                                           settings);
  EXPECT_EQ(given.optimizer().adam().beta1(), 0.5);
  EXPECT_EQ(given.optimizer().adam().beta2(), 0.9);
  EXPECT_EQ(given.batch_size(), 16u);
  EXPECT_EQ(given.num_epochs(), 0u);
  EXPECT_EQ(given.max_steps(), 10u);
  const v1::RunConfig other = WithSettings(
      Given("program { file: \"a.py\" } optimizer { sgd {} } replica_batch_size: 32"), settings);
  EXPECT_TRUE(other.optimizer().has_sgd());
  EXPECT_FALSE(other.optimizer().has_learning_rate());
  EXPECT_FALSE(other.has_batch_size());
}

// A run that gives everything does not change, and its program need not be asked.
TEST(LeavesSettingsToProgramTest, IsTrueUntilAllAreGiven) {
  const std::string program = "program { file: \"a.py\" } ";
  const std::string all = "optimizer { adam {} learning_rate: 0.1 } batch_size: 8 num_epochs: 3";
  EXPECT_FALSE(LeavesSettingsToProgram(Given(program + all)));
  EXPECT_FALSE(LeavesSettingsToProgram(Given("batch_size: 8")));
  for (const char* some : {"", "optimizer { adam {} } batch_size: 8 num_epochs: 3",
                           "optimizer { learning_rate: 0.1 } batch_size: 8 num_epochs: 3",
                           "optimizer { adam {} learning_rate: 0.1 } num_epochs: 3",
                           "optimizer { adam {} learning_rate: 0.1 } batch_size: 8"}) {
    EXPECT_TRUE(LeavesSettingsToProgram(Given(program + some))) << some;
  }
  const v1::RunConfig settings = Given("optimizer { adam { beta1: 0.5 } }");
  EXPECT_FALSE(WithSettings(Given(program + all), settings).optimizer().adam().has_beta1());
  v1::RunConfig resolved = Given(program + "num_epochs: 3");
  ResolveDefaults(TaskCounts(), &resolved);
  EXPECT_FALSE(LeavesSettingsToProgram(Given(PrintRunConfig(resolved))));
}

TEST(CompleteRunTest, ReplacesDefaultsByTheSettingsOfTheProgram) {
  const v1::RunConfig given = Given(
      "program { file: \"/a.py\" } batch_size: 16 deployment { num_replicas: 3 num_ps_tasks: 1 }");
  v1::RunConfig resolved = given;
  ResolveDefaults(TaskCounts(), &resolved);
  resolved.set_out("/out");
  const v1::RunConfig settings =
      Given("optimizer { adam { beta1: 0.5 } learning_rate: 0.1 } batch_size: 8 num_epochs: 3");
  const absl::StatusOr<v1::RunConfig> complete = CompleteRun(resolved, given, settings);
  ASSERT_TRUE(complete.ok()) << complete.status();
  EXPECT_EQ(complete->optimizer().adam().beta1(), 0.5);
  EXPECT_TRUE(complete->optimizer().adam().has_beta2());
  EXPECT_EQ(complete->batch_size(), 16u);
  EXPECT_EQ(complete->num_epochs(), 3u);
  EXPECT_EQ(complete->deployment().num_replicas(), 3u);
  EXPECT_EQ(complete->out(), "/out");
  const absl::Status nothing = CompleteRun(resolved, given, Given("batch_size: 8")).status();
  EXPECT_THAT(std::string(nothing.message()), ::testing::HasSubstr("give --num_epochs=3"));
}

TEST(WithSettingsTest, GroupsOfTheRunTakeThePlaceOfTheProgramsGroups) {
  const v1::RunConfig settings =
      Given("optimizer { adam {} group { variables: 'a' frozen: true } group { variables: 'b' } }");
  const std::string program = "program { file: \"a.py\" } ";
  EXPECT_EQ(WithSettings(Given(program + "batch_size: 8"), settings).optimizer().group_size(), 2);
  const v1::RunConfig given =
      WithSettings(Given(program + "optimizer { group { variables: 'c' } }"), settings);
  ASSERT_EQ(given.optimizer().group_size(), 1);
  EXPECT_EQ(given.optimizer().group(0).variables(), "c");
  EXPECT_TRUE(given.optimizer().has_adam());
}

}  // namespace
}  // namespace shoal
