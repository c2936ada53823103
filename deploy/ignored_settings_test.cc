#include "deploy/ignored_settings.h"

#include <stdlib.h>

#include <memory>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_matchers.h"
#include "runtime/config/defaults.h"
#include "runtime/config/run_config.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

class IgnoredSettingsTest : public ::testing::Test {
 protected:
  IgnoredSettingsTest() {
    std::string pattern = ::testing::TempDir() + "/ignored.XXXXXX";
    run_.set_out(mkdtemp(pattern.data()));
    run_.mutable_program()->set_file("/home/me/ed.py");
    Declare(64, 3, 0.001);
    run_.MergeFrom(declared_);
    ResolveDefaults(kTrainTaskCounts, &run_);
    EXPECT_OK(WriteAtomically(*files_, RunFile(), PrintRunConfig(run_)));
  }

  std::string RunFile() const { return run_.out() + "/run.textproto"; }
  void Declare(uint32_t batch_size, uint32_t epochs, double rate) {
    declared_.Clear();
    declared_.set_batch_size(batch_size);
    declared_.set_num_epochs(epochs);
    declared_.mutable_optimizer()->mutable_adam();
    declared_.mutable_optimizer()->set_learning_rate(rate);
  }
  std::string Find() {
    return FindIgnoredSettings(files_.get(), run_, declared_, {"shoal train", false});
  }

  const std::unique_ptr<FileSystem> files_ = NewPosixFileSystem();
  v1::RunConfig run_, declared_;
};

TEST_F(IgnoredSettingsTest, TheLineNamesBothValuesAndTheCommandThatFollowsTheProgram) {
  EXPECT_EQ(Find(), "");
  Declare(32, 6, 0.001);
  const std::string head =
      "warning: ed.py declares batch_size 32 and epochs 6; " + RunFile() +
      " says 64 and 3, which are used; to follow the program: shoal train --program=/home/me/ed.py";
  EXPECT_EQ(Find(), head + " --out=" + run_.out());
  run_.mutable_deployment()->set_num_ps_tasks(0);
  run_.mutable_deployment()->set_num_replicas(1);
  run_.mutable_program()->set_python("/venv/bin/python3");
  run_.mutable_program()->add_args("--size=1 2");
  EXPECT_EQ(Find(), head + " --python=/venv/bin/python3 --num_ps_tasks=0 --num_replicas=1 --out=" +
                        run_.out() + " -- '--size=1 2'");
}

TEST_F(IgnoredSettingsTest, AnotherOptimizerOrLengthIsNamed) {
  Declare(64, 3, 0.002);
  EXPECT_THAT(Find(), HasSubstr("declares learning_rate 0.002; "));
  EXPECT_THAT(Find(), HasSubstr(" says 0.001, which is used; "));
  Declare(64, 0, 0.001);
  declared_.set_max_steps(10);
  EXPECT_THAT(Find(), HasSubstr("declares epochs none and max_steps 10; "));
  EXPECT_THAT(Find(), HasSubstr(" says 3 and none, which are used; "));
  Declare(64, 3, 0.001);
  declared_.mutable_optimizer()->mutable_adam()->set_beta1(0.5);
  EXPECT_THAT(Find(), HasSubstr("declares optimizer.adam.beta1 0.5; "));
  declared_.mutable_optimizer()->mutable_sgd();
  EXPECT_THAT(Find(), HasSubstr("declares optimizer sgd; "));
  EXPECT_THAT(Find(), HasSubstr(" says adam, which is used; "));
}

TEST_F(IgnoredSettingsTest, AValueThatSomebodyElseHasChosenIsNotAnEditOfTheProgram) {
  Declare(32, 3, 0.001);
  ASSERT_OK(KeepDeclaredSettings(files_.get(), run_, declared_));
  EXPECT_EQ(Find(), "") << "a flag of the first start gave the batch size";
  Declare(32, 6, 0.001);
  EXPECT_THAT(Find(), HasSubstr("declares epochs 6; "));
  run_.set_num_epochs(9);
  EXPECT_EQ(Find(), "") << "a flag of this start gives the length";
  declared_.Clear();
  EXPECT_EQ(Find(), "") << "the program declares no settings";
}

TEST_F(IgnoredSettingsTest, TheOwnRunFileIsTheOneInTheRunsDirectory) {
  EXPECT_TRUE(IsOwnRunFile(
      run_.out() + "/../" + run_.out().substr(run_.out().rfind('/') + 1) + "/run.textproto", run_));
  EXPECT_FALSE(IsOwnRunFile("", run_));
  EXPECT_FALSE(IsOwnRunFile(run_.out() + "/other.textproto", run_));
}

}  // namespace
}  // namespace shoal
