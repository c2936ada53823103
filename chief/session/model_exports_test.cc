#include <cstdint>
#include <optional>
#include <string>
#include <variant>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "chief/ledgers/export_ledger.h"
#include "chief/session/training_session_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class ModelExportsTest : public TrainingSessionTest {
 protected:
  explicit ModelExportsTest(uint64_t export_every = 1)
      : TrainingSessionTest(OptionsWith(export_every)) {}

  static TrainingSession::Options OptionsWith(uint64_t export_every) {
    TrainingSession::Options options = DefaultOptions();
    options.export_every = export_every;
    return options;
  }

  // A checkpoint on request; durable when it returns.
  uint64_t Save(bool stop) {
    v1::RequestStopRequest request;
    request.set_stop(stop);
    const uint64_t version = *session_->RequestStop(now_, request);
    Cut(version);
    EXPECT_FALSE(manifests_.empty());
    ManifestIsWritten(manifests_.back());
    return version;
  }

  absl::Status ReportPart(uint32_t ps, uint64_t version, const std::string& error = "") {
    v1::ReportShardRequest part;
    *part.mutable_identity() = IdentityOf(v1::JOB_PS, ps);
    part.set_version(version);
    part.set_is_export(true);
    part.set_error(error);
    return session_->ReportShard(now_, part);
  }

  std::optional<ModelExport> TakeExport() {
    std::optional<ModelExport> found;
    for (const SessionRecord& record : session_->TakeRecords()) {
      if (const auto* made = std::get_if<ModelExport>(&record)) found = *made;
    }
    return found;
  }

  bool PsReceiveTheEnd() {
    now_ += absl::Seconds(3);
    for (const auto& [job, index] : all_) Beat(job, index).IgnoreError();
    for (const PsCommand& command : session_->TakeCommands(now_)) {
      if (std::holds_alternative<v1::FinishRequest>(command.request)) return true;
    }
    return false;
  }
};

TEST_F(ModelExportsTest, ACheckpointIsDurableBeforeItsExportIsWritten) {
  StartTraining();
  const uint64_t version = Save(/*stop=*/false);
  EXPECT_EQ(session_->checkpoints().durable_version(), version);
  EXPECT_TRUE(session_->exports().IsWanted(version));
  EXPECT_FALSE(TakeExport().has_value());
  ASSERT_TRUE(ReportPart(0, version).ok());
  ASSERT_TRUE(ReportPart(0, version).ok());
  EXPECT_FALSE(TakeExport().has_value()) << "the other half is missing";
  ASSERT_TRUE(ReportPart(1, version).ok());
  const auto made = TakeExport();
  ASSERT_TRUE(made.has_value());
  EXPECT_TRUE(made->parts_are_written);
  EXPECT_EQ(made->directory, session_->checkpoints().durable_directory());
}

TEST_F(ModelExportsTest, ANewerCheckpointMakesAnExportThatIsNotThereYetNeedless) {
  StartTraining();
  const uint64_t old = Save(/*stop=*/false);
  ASSERT_TRUE(ReportPart(0, old).ok());
  const uint64_t version = Save(/*stop=*/false);
  ASSERT_GT(version, old);
  ASSERT_TRUE(ReportPart(1, old).ok());
  EXPECT_FALSE(TakeExport().has_value());
  for (const uint32_t ps : {0u, 1u}) ASSERT_TRUE(ReportPart(ps, version).ok());
  EXPECT_TRUE(TakeExport().has_value());
}

TEST_F(ModelExportsTest, AtTheEndPsStayUntilTheyHaveWrittenTheirParts) {
  StartTraining();
  const uint64_t version = Save(/*stop=*/true);
  EXPECT_EQ(session_->state().phase(), v1::RunState::PHASE_DONE) << "nothing else waits";
  EXPECT_TRUE(session_->exports().is_pending());
  EXPECT_FALSE(PsReceiveTheEnd());
  for (const uint32_t ps : {0u, 1u}) ASSERT_TRUE(ReportPart(ps, version).ok());
  const auto made = TakeExport();
  EXPECT_TRUE(made->parts_are_written);
  EXPECT_FALSE(session_->exports().is_pending());
  EXPECT_TRUE(PsReceiveTheEnd());
  EXPECT_TRUE(session_->exports().is_under_way()) << "the file is not there yet";
  session_->OnExported(now_, *made, absl::OkStatus());
  EXPECT_FALSE(session_->exports().is_under_way());
}

TEST_F(ModelExportsTest, AtTheEndTheChiefMakesWhatAPsWillNotWrite) {
  StartTraining();
  const uint64_t version = Save(/*stop=*/false);
  ASSERT_TRUE(ReportPart(0, version, "no space").ok());
  session_->Tick(now_);
  EXPECT_FALSE(TakeExport().has_value()) << "the training continues without it";
  const uint64_t last = Save(/*stop=*/false);
  ASSERT_TRUE(ReportPart(0, last, "no space").ok());
  const auto made = TakeExport();
  ASSERT_TRUE(made.has_value());
  EXPECT_FALSE(made->parts_are_written);
  EXPECT_EQ(made->deadline, absl::InfiniteFuture()) << "a run that is over has time";
  session_->OnExported(now_, *made, absl::InternalError("no space"));
  EXPECT_FALSE(session_->exports().is_pending()) << "it is tried once";
}

TEST_F(ModelExportsTest, AtAStopTheChiefHasThirtySecondsForWhatAPsWillNotWrite) {
  StartTraining();
  const uint64_t version = Save(/*stop=*/true);
  ASSERT_TRUE(ReportPart(0, version, "no space").ok());
  const auto made = TakeExport();
  ASSERT_TRUE(made.has_value());
  EXPECT_FALSE(made->parts_are_written);
  EXPECT_EQ(made->deadline, now_ + absl::Seconds(30));
}

TEST_F(ModelExportsTest, APsThatLeavesOrHangsAtTheEndIsNotWaitedForLong) {
  StartTraining();
  Save(/*stop=*/true);
  ASSERT_FALSE(TakeExport().has_value());
  Leave(v1::JOB_PS, 1);
  session_->Tick(now_);
  EXPECT_TRUE(TakeExport().has_value());
}

TEST_F(ModelExportsTest, AtAStopTheChiefWaitsForPartsNoLongerThanItHasTime) {
  StartTraining();
  Save(/*stop=*/true);
  for (int i = 0; i < 14; ++i) {
    now_ += absl::Seconds(1);
    for (const auto& [job, index] : all_) Beat(job, index).IgnoreError();
    session_->Tick(now_);
    ASSERT_FALSE(TakeExport().has_value()) << i;
  }
  now_ += absl::Seconds(1);
  for (const auto& [job, index] : all_) Beat(job, index).IgnoreError();
  session_->Tick(now_);
  EXPECT_TRUE(TakeExport().has_value());
}

TEST_F(ModelExportsTest, AFileThatCannotGetItsNameIsMadeAnewAtTheEndOnly) {
  StartTraining();
  uint64_t version = Save(/*stop=*/false);
  for (const uint32_t ps : {0u, 1u}) ASSERT_TRUE(ReportPart(ps, version).ok());
  session_->OnExported(now_, *TakeExport(), absl::DataLossError("too short"));
  EXPECT_FALSE(TakeExport().has_value());
  version = Save(/*stop=*/true);
  for (const uint32_t ps : {0u, 1u}) ASSERT_TRUE(ReportPart(ps, version).ok());
  session_->OnExported(now_, *TakeExport(), absl::DataLossError("too short"));
  const auto made = TakeExport();
  ASSERT_TRUE(made.has_value());
  EXPECT_FALSE(made->parts_are_written);
}

class LastExportTest : public ModelExportsTest {
 protected:
  LastExportTest() : ModelExportsTest(/*export_every=*/0) {}
};

TEST_F(LastExportTest, OnlyTheLastCheckpointGetsAnExport) {
  StartTraining();
  EXPECT_FALSE(session_->exports().IsWanted(Save(/*stop=*/false)));
  EXPECT_TRUE(session_->exports().IsWanted(Save(/*stop=*/true)));
}

TEST(ExportLedgerTest, CountsCutsAndForgetsThem) {
  ExportLedger exports(3);
  for (uint64_t version = 10; version <= 60; version += 10) {
    for (int ps = 0; ps < 2; ++ps) exports.OnShard(version, /*must_have_one=*/version == 40);
    EXPECT_EQ(exports.IsWanted(version), version % 30 == 0 || version == 40) << version;
  }
  exports.AddPart(1, 60);
  EXPECT_THAT(exports.Missing(60, {0, 1, 2}), ElementsAre(0, 2));
  exports.OnPsLost(1);
  EXPECT_TRUE(exports.IsWanted(60)) << "it has written its part";
  EXPECT_FALSE(exports.IsWanted(30));
  exports.OnPsLost(0);
  EXPECT_FALSE(exports.IsWanted(60));
  exports.ForgetBelow(60);
  EXPECT_FALSE(exports.IsWanted(40));
  EXPECT_THAT(exports.Missing(60, {1}), IsEmpty());
}

}  // namespace
}  // namespace shoal
