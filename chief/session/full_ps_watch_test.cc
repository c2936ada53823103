// Ps whose tables grow towards the bound of their memory.
#include <algorithm>
#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/memory_limit.h"
#include "chief/session/training_session_testing.h"
#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kMebibyte = 1 << 20;

// A run of four steps.
class FullPsTest : public TrainingSessionTest {
 protected:
  // The ps reports that it uses so much of 100 MiB, half of it for this table.
  void BeatWith(uint32_t ps, uint64_t used, const std::string& largest_table = "item",
                const std::string& limit_set_by = "cluster.ps_memory", uint64_t limit = 100) {
    v1::HeartbeatRequest request;
    *request.mutable_identity() = IdentityOf(v1::JOB_PS, ps);
    v1::PsMemory* memory = request.mutable_memory();
    memory->set_used(used * kMebibyte);
    memory->set_limit(limit * kMebibyte);
    memory->set_limit_set_by(limit_set_by);
    v1::PsMemory::Table* table = memory->add_tables();
    table->set_name(largest_table);
    table->set_rows(used * 1000);
    table->set_bytes(used / 2 * kMebibyte);
    ASSERT_TRUE(session_->Heartbeat(now_, request).ok());
    Act();
  }
  size_t NotesWith(const std::string& words) const {
    return static_cast<size_t>(std::count_if(
        notes_.begin(), notes_.end(),
        [&words](const std::string& note) { return note.find(words) != std::string::npos; }));
  }
};

TEST_F(FullPsTest, TheStatusHasTheTablesAndARunWithRoomContinues) {
  StartTraining();
  BeatWith(0, 30);
  BeatWith(1, 40);
  const v1::GetRunStatusResponse status = session_->Status(now_);
  ASSERT_EQ(status.tables_size(), 1);
  EXPECT_EQ(status.tables(0).name(), "item");
  EXPECT_EQ(status.tables(0).rows(), 70000u);
  EXPECT_THAT(status.memory_warning(), IsEmpty());
  EXPECT_THAT(notes_, Not(Contains(HasSubstr("ps/0 uses"))));
  EXPECT_THAT(cut_versions_, IsEmpty());
}

TEST_F(FullPsTest, ALineHasTheTables) {
  StartTraining();
  BeatWith(0, 30);
  BeatWith(1, 40);
  ReportStepsUpTo(2);
  session_->Tick(now_);
  std::vector<StepLine> lines;
  for (const SessionRecord& record : session_->TakeRecords()) {
    if (const auto* line = std::get_if<StepLine>(&record)) lines.push_back(*line);
  }
  ASSERT_EQ(lines.size(), 2u);
  ASSERT_EQ(lines[0].tables.size(), 1u);
  EXPECT_EQ(lines[0].tables[0].rows(), 70000u);
  EXPECT_THAT(lines[1].tables, IsEmpty());
}

TEST_F(FullPsTest, APsWithLittleRoomIsNamedOnce) {
  StartTraining();
  for (const uint64_t used : {90, 90, 91, 92}) {
    BeatWith(1, used);
    BeatWith(0, used);
    now_ += absl::Seconds(1);
  }
  EXPECT_EQ(NotesWith("uses 90 MiB of the 100 MiB"), 1u);
  EXPECT_EQ(NotesWith("uses 9"), 1u);
  EXPECT_THAT(session_->Status(now_).memory_warning(), HasSubstr("uses 92 MiB"));
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  EXPECT_THAT(cut_versions_, IsEmpty());
}

TEST_F(FullPsTest, TheRunMakesACheckpointAndEndsBeforeAPsNeedsMoreThanItMay) {
  StartTraining();
  ReportStepsUpTo(1);
  for (const uint64_t used : {85, 90, 95}) {
    BeatWith(1, used);
    now_ += absl::Seconds(1);
  }
  EXPECT_THAT(cut_versions_, Contains(3));
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING) << "until the checkpoint";
  Cut(3);
  ASSERT_EQ(manifests_.size(), 1u);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_STOPPING);
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_FAILED);
  EXPECT_TRUE(absl::IsFailedPrecondition(session_->failure()));
  EXPECT_THAT(std::string(session_->failure().message()),
              AllOf(HasSubstr("ps/1 is full"), HasSubstr("item with 95000 rows"),
                    HasSubstr("use more ps (--num_ps_tasks), raise --ps_memory"),
                    HasSubstr("The last checkpoint is that of step 3, cut-3")));
}

TEST_F(FullPsTest, ARunWhoseMemoryOthersTakeEndsSoThatASupervisorStartsItAgain) {
  StartTraining();
  ReportStepsUpTo(1);
  const auto beat = [this](uint64_t limit) {
    BeatWith(0, 60, "item", kFreeMemory, limit);
    now_ += absl::Seconds(1);
  };
  beat(100);
  for (int second = 0; second < 15; ++second) beat(55);
  beat(100);
  for (int second = 0; second < 19; ++second) beat(55);
  EXPECT_FALSE(session_->phases().is_interrupted()) << "the shortages were too short";
  for (int second = 0; second < 3; ++second) beat(55);
  EXPECT_TRUE(session_->phases().is_interrupted());
  Cut(3);
  ManifestIsWritten(manifests_.at(0));
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_FAILED);
  EXPECT_EQ(ToExitCode(session_->failure()), kExitRestartMe) << session_->failure();
  EXPECT_THAT(std::string(session_->failure().message()),
              AllOf(HasSubstr("Other processes of its machine have taken the rest"),
                    HasSubstr("The last checkpoint is that of step 3, cut-3")));
}

TEST_F(FullPsTest, TheLastStepsAreMadeAlthoughAPsIsFull) {
  StartTraining();
  ReportStepsUpTo(2);
  BeatWith(0, 200);
  EXPECT_THAT(cut_versions_, IsEmpty());
  Cut(4);
  ManifestIsWritten(manifests_.at(0));
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(session_->failure().ok()) << session_->failure();
}

TEST_F(FullPsTest, ATableThatMorePsCannotDivideNeedsMoreBuckets) {
  b_is_a_table_ = true;
  StartTraining();
  BeatWith(1, 91, "b");
  EXPECT_THAT(
      session_->Status(now_).memory_warning(),
      HasSubstr("begin a new run with --init_state --init_from=DIRECTORY of this run, which "
                "keep rows, slots and counts, and give table b more than 2 buckets"));
}

// The ps have passed the versions that the chief asked a checkpoint of.
TEST_F(FullPsTest, ARunThatIsTrainedMeanwhileIsFinished) {
  evaluation_blocks_ = 1;
  StartTraining();
  BeatWith(0, 200);
  EXPECT_TRUE(session_->phases().is_interrupted());
  Cut(4);
  EXPECT_THAT(manifests_, IsEmpty()) << "the evaluation is missing";
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_TRAINING);
  v1::ReportEvaluationRequest evaluation;
  *evaluation.mutable_identity() = IdentityOf(v1::JOB_WORKER, 0);
  evaluation.set_version(4);
  ASSERT_TRUE(session_->ReportEvaluation(now_, evaluation).ok());
  Act();
  ASSERT_EQ(manifests_.size(), 1u);
  EXPECT_EQ(NotesWith("trained to its end in spite of: ps/0 is full"), 1u);
  EXPECT_FALSE(session_->phases().is_interrupted());
  ManifestIsWritten(manifests_[0]);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(session_->failure().ok()) << session_->failure();
}

TEST_F(FullPsTest, AStopThatAUserAskedForIsNotForgotten) {
  StartTraining();
  v1::RequestStopRequest stop;
  stop.set_stop(true);
  stop.set_reason("a user");
  ASSERT_TRUE(session_->RequestStop(now_, stop).ok());
  BeatWith(0, 200);
  Cut(2);
  ManifestIsWritten(manifests_.at(0));
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE);
  EXPECT_TRUE(absl::IsCancelled(session_->failure()));
}

TEST_F(FullPsTest, APsThatCameBackHasNoRowsUntilItReportsThem) {
  StartTraining();
  BeatWith(0, 95);
  Leave(v1::JOB_PS, 0);
  Register(v1::JOB_PS, 0, "second");
  EXPECT_EQ(session_->Status(now_).tables_size(), 0);
  EXPECT_THAT(session_->Status(now_).memory_warning(), IsEmpty());
}

}  // namespace
}  // namespace shoal
