#include "chief/session/session_context.h"

#include "gtest/gtest.h"

#include "chief/session/session_options_testing.h"

namespace shoal {
namespace {

TEST(TrainingProgressTest, ComputingABatchAgainIsNotProgress) {
  TrainingProgress progress;
  absl::Time now = absl::UnixEpoch();
  progress.OnBatchBegun(now, {0, 3});
  EXPECT_EQ(progress.last(), now);
  progress.OnBatchBegun(now + absl::Seconds(1), {0, 3});
  EXPECT_EQ(progress.last(), now);
  progress.OnBatchBegun(now + absl::Seconds(2), {0, 4});
  EXPECT_EQ(progress.last(), now + absl::Seconds(2));
  progress.OnProgress(now + absl::Seconds(3));
  progress.OnBatchBegun(now + absl::Seconds(4), {0, 3});
  EXPECT_EQ(progress.last(), now + absl::Seconds(4)) << "a step was made in between";
}

TEST(TrainingProgressTest, SignsAloneKeepARunAliveForAnHour) {
  TrainingProgress progress;
  absl::Time now = absl::UnixEpoch();
  progress.OnProgress(now);
  for (int minute = 1; minute < 90; ++minute) progress.OnSign(now + absl::Minutes(minute));
  EXPECT_EQ(progress.last_sign(), now + absl::Minutes(61)) << "an hour after the first one";
  EXPECT_EQ(progress.last(), now) << "a stop waits for steps, not for signs";
  now += absl::Hours(2);
  progress.OnProgress(now);
  EXPECT_EQ(progress.last_sign(), now);
  progress.OnSign(now + absl::Minutes(1));
  EXPECT_EQ(progress.last_sign(), now + absl::Minutes(1));
}

TEST(SessionContextTest, AResumedRunBeginsANewLineageAtItsCheckpoint) {
  SessionOptions options = TestSessionOptions();
  options.manifest.emplace();
  options.manifest->set_step(12);
  options.manifest->set_lineage(4);
  options.manifest_directory = "ckpt-12";
  const SessionContext context(options);
  EXPECT_TRUE(context.has_checkpoint());
  EXPECT_EQ(context.cuts.durable_version(), 12u);
  EXPECT_EQ(context.phases.lineage(), 5u);
  EXPECT_FALSE(SessionContext(TestSessionOptions()).has_checkpoint());
}

TEST(SessionContextTest, TheChiefIsTheSenderOfACommand) {
  SessionOptions options = TestSessionOptions();
  options.run_id = "run";
  options.term = 3;
  const SessionContext context(options);
  v1::Identity identity;
  context.FillIdentity(&identity);
  EXPECT_EQ(identity.run_id(), "run");
  EXPECT_EQ(identity.term(), 3u);
  EXPECT_EQ(identity.member().job(), v1::JOB_CHIEF);
  EXPECT_EQ(identity.lineage(), 1u);
}

}  // namespace
}  // namespace shoal
