#include "chief/session/ps_commands.h"

#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/session/training_session_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// Returns the commands of a session with two ps.
class PsCommandsTest : public TrainingSessionTest {
 protected:
  // Registers all tasks. The ps have answered nothing.
  void RegisterAll() {
    for (const auto& [job, index] : all_) Register(job, index);
    ASSERT_EQ(session_->state().phase(), v1::RunState::PHASE_PREPARING);
  }

  // Returns the ps that are asked to load now.
  std::vector<uint32_t> Loads() {
    std::vector<uint32_t> ps;
    for (const PsCommand& command : session_->TakeCommands(now_)) {
      if (!std::holds_alternative<v1::LoadSlicesRequest>(command.request)) continue;
      ps.push_back(command.ps);
      last_load_ = command;
    }
    return ps;
  }

  // Lets time pass in which all tasks renew their leases.
  void Wait(int seconds) {
    for (int i = 0; i < seconds; ++i) {
      now_ += absl::Seconds(1);
      for (const auto& [job, index] : all_) EXPECT_TRUE(Beat(job, index).ok());
    }
  }

  PsCommand last_load_;
};

TEST_F(PsCommandsTest, ALoadNamesItsSenderTheVariablesAndTheAddress) {
  RegisterAll();
  EXPECT_THAT(Loads(), ElementsAre(0, 1));
  const auto& load = std::get<v1::LoadSlicesRequest>(last_load_.request);
  EXPECT_EQ(last_load_.address, "address");
  EXPECT_EQ(load.identity().member().job(), v1::JOB_CHIEF);
  EXPECT_EQ(load.identity().lineage(), 1u);
  EXPECT_EQ(load.variables_size(), 2);
  EXPECT_EQ(load.checkpoint(), "");
}

TEST_F(PsCommandsTest, InitialValuesAreThoseOfTheFirstWorkerThatTakesAPlace) {
  v1::RegisterTaskRequest check = RequestOf(v1::JOB_WORKER, 0, "first");
  check.set_only_check(true);
  ASSERT_TRUE(session_->Register(now_, check).ok());
  initial_values_ = 0xab0;
  Register(v1::JOB_WORKER, 1);
  Register(v1::JOB_WORKER, 0);
  Register(v1::JOB_PS, 0);
  Register(v1::JOB_PS, 1);
  EXPECT_THAT(Loads(), ElementsAre(0, 1));
  const auto& load = std::get<v1::LoadSlicesRequest>(last_load_.request);
  EXPECT_THAT(load.run().init_from(), HasSubstr("initial/0000000000000ab1.safetensors"));
}

TEST_F(PsCommandsTest, InitFromTakesThePlaceOfAProgramsInitialValues) {
  TrainingSession::Options options = DefaultOptions();
  options.run.set_init_from("/runs/a/checkpoints/1");
  session_ = std::make_unique<TrainingSession>(options);
  b_is_a_table_ = true;
  initial_values_ = 0xab0;
  RegisterAll();
  EXPECT_THAT(Loads(), ElementsAre(0, 1));
  const auto& load = std::get<v1::LoadSlicesRequest>(last_load_.request);
  EXPECT_EQ(load.run().init_from(), "/runs/a/checkpoints/1");
  EXPECT_THAT(load.run().init_map(), IsEmpty());
}

TEST_F(PsCommandsTest, ACommandWithoutAnAnswerIsRepeatedAfterItsTime) {
  RegisterAll();
  EXPECT_THAT(Loads(), ElementsAre(0, 1));
  Wait(59);
  EXPECT_THAT(Loads(), IsEmpty());
  Wait(1);
  EXPECT_THAT(Loads(), ElementsAre(0, 1));
}

TEST_F(PsCommandsTest, ACommandThatDidNotArriveOrThatFailedIsRepeatedSoon) {
  RegisterAll();
  EXPECT_THAT(Loads(), ElementsAre(0, 1));
  session_->OnUndelivered(now_, last_load_);
  now_ += absl::Milliseconds(300);
  EXPECT_THAT(Loads(), ElementsAre(1));
  session_->OnLoadFailed(now_, last_load_, absl::ResourceExhaustedError("no memory"));
  now_ += absl::Seconds(1);
  EXPECT_THAT(Loads(), IsEmpty());
  now_ += absl::Seconds(1);
  EXPECT_THAT(Loads(), ElementsAre(1));
}

TEST_F(PsCommandsTest, APsThatStillLoadsIsAskedEveryTwoSecondsAndLoggedOnce) {
  RegisterAll();
  Loads();
  const absl::Status lost = absl::DeadlineExceededError("no answer in 20s");
  const absl::Status still = absl::UnavailableError("this ps is still loading; ask again");
  session_->OnLoadFailed(now_, last_load_, lost);
  now_ += absl::Milliseconds(300);
  EXPECT_THAT(Loads(), ElementsAre(1));
  session_->OnLoadFailed(now_, last_load_, still);
  now_ += absl::Milliseconds(300);
  for (int i = 0; i < 3; ++i) {
    EXPECT_THAT(Loads(), ElementsAre(1));
    session_->OnLoadFailed(now_, last_load_, still);
    now_ += absl::Seconds(1);
    EXPECT_THAT(Loads(), IsEmpty());
    now_ += absl::Seconds(1);
  }
  std::vector<std::string> warnings;
  for (const SessionRecord& record : session_->TakeRecords()) {
    const auto* note = std::get_if<SessionNote>(&record);
    if (note != nullptr && note->is_warning) warnings.push_back(note->text);
  }
  EXPECT_THAT(warnings, ElementsAre(HasSubstr("ps/1 has not loaded yet: no answer in 20s"),
                                    HasSubstr("ps/1 has not loaded yet: this ps is still")));
  session_->OnAnswer(now_, last_load_, v1::LoadSlicesResponse());
  EXPECT_THAT(Loads(), IsEmpty());
}

TEST_F(PsCommandsTest, ALostPsGetsNoCommands) {
  RegisterAll();
  Leave(v1::JOB_PS, 1);
  EXPECT_THAT(Loads(), ElementsAre(0));
}

TEST_F(PsCommandsTest, ACommandThatIsNotNeededAnyMoreIsNotRepeated) {
  StartTraining();
  const uint64_t version = *session_->RequestStop(now_, v1::RequestStopRequest());
  EXPECT_EQ(session_->TakeCommands(now_).size(), 2u) << "each ps is asked for the cut";
  Cut(version);
  ManifestIsWritten(manifests_[0]);
  Wait(3);
  EXPECT_THAT(session_->TakeCommands(now_), IsEmpty());
}

TEST_F(PsCommandsTest, TheEndIsRepeatedUntilThePsHasAcknowledgedIt) {
  StartTraining();
  session_->Fence("another chief has taken the run over");
  std::vector<PsCommand> commands = session_->TakeCommands(now_);
  ASSERT_EQ(commands.size(), 2u);
  const auto& finish = std::get<v1::FinishRequest>(commands[0].request);
  EXPECT_EQ(finish.failure_code(), static_cast<uint32_t>(absl::StatusCode::kAborted));
  session_->OnAnswer(now_, commands[0], v1::FinishResponse());
  EXPECT_FALSE(session_->all_finished());
  now_ += absl::Seconds(2);
  commands = session_->TakeCommands(now_);
  ASSERT_EQ(commands.size(), 1u);
  EXPECT_EQ(commands[0].ps, 1u);
  session_->OnAnswer(now_, commands[0], v1::FinishResponse());
  EXPECT_TRUE(session_->all_finished());
}

}  // namespace
}  // namespace shoal
