#include "worker/program/program_conversation.h"

#include <cmath>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "worker/program/program_messages.h"
#include "worker/program/program_talk_testing.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;

TEST(ProgramConversationTest, ComputesABatch) {
  Talk talk;
  talk.MakeIdle();
  const ProgramDeclaration& declared = talk.conversation.declaration();
  EXPECT_EQ(talk.conversation.implementation(), "test 1");
  EXPECT_EQ(declared.train_examples, 100u);
  EXPECT_EQ(declared.settings.batch_size(), 5u);
  EXPECT_THAT(declared.metrics, SizeIs(2));
  EXPECT_EQ(declared.metrics[1].name(), "top_5");
  EXPECT_EQ(declared.metrics[1].kind(), v1::METRIC_KIND_MEAN);
  ASSERT_EQ(declared.variables.size(), 3u);
  EXPECT_EQ(declared.variables[0].update(), v1::UPDATE_KIND_OPTIMIZER);
  EXPECT_EQ(declared.variables[1].update(), v1::UPDATE_KIND_ASSIGN);
  EXPECT_EQ(declared.variables[2].update(), v1::UPDATE_KIND_NONE);

  talk.Start();
  MessageReader sent(*talk.conversation.output());
  EXPECT_EQ(sent.U32(), 72u);
  EXPECT_EQ(sent.U32(), static_cast<uint32_t>(ProgramMessage::kTrain));
  EXPECT_EQ(sent.U64(), 1u);
  EXPECT_EQ(talk.Say(Final(1, {1})), absl::OkStatus());
  EXPECT_TRUE(talk.conversation.is_final(1));
  EXPECT_FALSE(talk.conversation.is_final(0));
  EXPECT_EQ(talk.Say(Final(1, {0}) + Done(1, 12.5)), absl::OkStatus());
  EXPECT_THAT(talk.finals, ElementsAre(1, 0));
  EXPECT_EQ(talk.conversation.phase(), Phase::kIdle);
  EXPECT_EQ(talk.conversation.result().loss_sum, 12.5);
  EXPECT_EQ(talk.conversation.result().metrics[0].sum, 1);
  talk.Start();
  EXPECT_FALSE(talk.conversation.is_final(0));
}

TEST(ProgramConversationTest, PiecesOfAnySizeAreTheSameMessages) {
  Talk talk;
  talk.MakeIdle();
  talk.Start();
  for (const char c : Final(1, {0, 1}) + Done(1, 3)) {
    ASSERT_EQ(talk.Say(std::string(1, c)), absl::OkStatus());
  }
  EXPECT_THAT(talk.finals, ElementsAre(0, 1));
  EXPECT_EQ(talk.conversation.phase(), Phase::kIdle);
}

TEST(ProgramConversationTest, ALossThatIsNotFiniteIsAResult) {
  Talk talk;
  talk.MakeIdle();
  talk.Start();
  EXPECT_EQ(talk.Say(Done(1, NAN, NAN, -1)), absl::OkStatus());
  EXPECT_TRUE(std::isnan(talk.conversation.result().loss_sum));
}

void ExpectRefused(const Declared& declared, const std::string& why) {
  Talk talk;
  ASSERT_EQ(talk.Say(Hello()), absl::OkStatus());
  const absl::Status status = talk.Say(Declare(declared));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition) << why;
  EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  EXPECT_THAT(std::string(status.message()), HasSubstr("program: train.py: "));
}

TEST(ProgramConversationTest, RefusesDeclarationsBeyondTheLimits) {
  Declared declared;
  declared.train = 0;
  ExpectRefused(declared, "declares 0 training");
  declared = {};
  declared.ahead = 65;
  ExpectRefused(declared, "wants 65 batches announced");
  declared = {};
  declared.settings = "out: '/etc'";
  ExpectRefused(declared, "its settings have other fields");
  declared.settings = "batch_size: x";
  ExpectRefused(declared, "settings");
  declared = {};
  declared.metrics = {"a", "a"};
  ExpectRefused(declared, "two metrics are named a");
  declared.metrics = std::vector<std::string>(17, "x");
  ExpectRefused(declared, "declares 17 metrics; at most 16");
  declared.metrics = {"f 1"};
  ExpectRefused(declared, "a metric is named \"f 1\"");
  for (const std::string name : {"step", "loss", "examples_per_second", "eval_f1"}) {
    declared.metrics = {name};
    ExpectRefused(declared, "a metric is named " + name + ": ");
  }
  declared = {};
  declared.variables = {};
  ExpectRefused(declared, "declares 0 variables and no table");
  declared.variables = {{"w", 3, {}}};
  ExpectRefused(declared, "none of its variables is TRAINABLE");
  declared.variables = {{"w", 1, {}}, {"w", 1, {}}};
  ExpectRefused(declared, "two variables are named w");
  declared.variables = {{"w x", 1, {}}};
  ExpectRefused(declared, "a variable is named \"w x\"");
  declared.variables = {{"w", 4, {}}};
  ExpectRefused(declared, "variable w has kind 4");
  declared.variables = {{"w", 1, {3, 0}}};
  ExpectRefused(declared, "variable w: dimension 1 is 0");
  declared.variables = {{"w", 1, {uint64_t{1} << 20, uint64_t{1} << 21}}};
  ExpectRefused(declared, "variable w: dimension 1 is 2097152");
  declared.variables = {{"w", 1, std::vector<uint64_t>(9, 1)}};
  ExpectRefused(declared, "variable w has 9 dimensions");
  declared = {};
  declared.behind = "x";
  ExpectRefused(declared, "bytes behind its end");
}

TEST(ProgramConversationTest, RefusesADeclarationThatIsCutShortAnywhere) {
  const std::string whole = Declare({}).substr(kMessageHeadBytes);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    EXPECT_FALSE(DecodeDeclaration(whole.substr(0, bytes), 1).ok()) << bytes;
  }
  EXPECT_TRUE(DecodeDeclaration(whole, 1).ok());
}

TEST(ProgramConversationTest, RefusesFilesThatAreNotComputePrograms) {
  for (const std::string& greeting :
       {std::string("GET / HTTP/1.1\r\n\r\n"), Ready(), Hello(1, 1, 1), Error(1)}) {
    Talk talk;
    const absl::Status status = talk.Say(greeting);
    EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_THAT(std::string(status.message()), HasSubstr("is not a compute program"));
    EXPECT_EQ(talk.Say(Hello()), status);  // The first error stays.
  }
}

// Returns the version in WELCOME.
uint32_t AgreedVersion(uint32_t lowest, uint32_t highest) {
  Talk talk;
  EXPECT_EQ(talk.Say(Hello(lowest, highest)), absl::OkStatus());
  MessageReader sent(*talk.conversation.output());
  sent.U64();
  return sent.U32();
}

TEST(ProgramConversationTest, SpeaksTheHighestVersionOfBoth) {
  EXPECT_EQ(AgreedVersion(1, 1), 1u);
  EXPECT_EQ(AgreedVersion(1, 2), 2u);
  EXPECT_EQ(AgreedVersion(2, 2), 2u);
  EXPECT_EQ(AgreedVersion(1, 3), 3u);
  EXPECT_EQ(AgreedVersion(1, 4), 4u);
  EXPECT_EQ(AgreedVersion(1, 9), 5u);
  for (const auto& [lowest, highest] : {std::pair(6u, 7u), std::pair(0u, 0u), std::pair(2u, 1u)}) {
    Talk other;
    EXPECT_THAT(std::string(other.Say(Hello(lowest, highest)).message()),
                HasSubstr("this shoal has versions 1 to 5; use releases of shoal that belong"));
  }
}

// Brings a conversation of version 2 to work 1. Its metrics are accuracy, f1 and auc.
void StartVersion2(Talk* talk) {
  Declared declared;
  declared.metrics.clear();
  std::string declaration = Declare(declared);
  std::string metrics;
  {
    MessageWriter writer(ProgramMessage::kDeclare, &metrics);
    writer.U32(3).Text("accuracy").U32(1).Text("f1").U32(1).Text("auc").U32(2);
  }
  // In the place of the number of metrics, which is 0.
  const size_t at = declaration.find(declared.settings) + declared.settings.size();
  declaration.replace(at, 4, metrics.substr(kMessageHeadBytes));
  const auto size = static_cast<uint32_t>(declaration.size() - kMessageHeadBytes);
  std::memcpy(declaration.data(), &size, sizeof(size));
  ASSERT_EQ(talk->Say(Hello(1, 2) + declaration), absl::OkStatus());
  talk->conversation.SendLayout(LayOut(talk->conversation.declaration().variables));
  ASSERT_EQ(talk->Say(Ready()), absl::OkStatus());
  talk->Start();
}

std::string DoneWith(double f1_sum, double f1_weight, const std::vector<ScoreCount>& scores,
                     double loss = 1) {
  std::string out;
  MessageWriter writer(ProgramMessage::kDone, &out);
  writer.U64(1).F64(loss).F64(1).F64(5).F64(f1_sum).F64(f1_weight);
  writer.U32(static_cast<uint32_t>(scores.size()));
  for (const ScoreCount& score : scores) {
    writer.U32(score.bin).U32(score.positives).U32(score.negatives);
  }
  return out;
}

TEST(ProgramConversationTest, MetricsHaveKindsInVersion2) {
  Talk talk;
  StartVersion2(&talk);
  EXPECT_EQ(talk.conversation.declaration().metrics[2].kind(), v1::METRIC_KIND_AUC);
  ASSERT_EQ(talk.Say(DoneWith(0.5, 2, {{7, 1, 0}, {9, 0, 3}})), absl::OkStatus());
  const MetricSums& metrics = talk.conversation.result().metrics;
  ASSERT_EQ(metrics.size(), 3u);
  EXPECT_EQ(metrics[1].sum, 0.5);
  EXPECT_EQ(metrics[1].weight, 2);
  ASSERT_EQ(metrics[2].histogram.size(), 2u);
  EXPECT_EQ(metrics[2].histogram[1].bin, 9u);
  EXPECT_EQ(metrics[2].histogram[1].negatives, 3u);
}

TEST(ProgramConversationTest, RefusesMetricsThatCannotBe) {
  const std::vector<ScoreCount> too_many(kMostScoreCounts + 1, {0, 1, 1});
  std::vector<ScoreCount> rising = too_many;
  for (uint32_t i = 0; i < rising.size(); ++i) rising[i].bin = i;
  const std::pair<std::string, std::string> wrong[] = {
      {DoneWith(1, -1, {}), "metric f1 with sum 1 and weight -1"},
      {DoneWith(1, 0, {}), "metric f1 with sum 1 and weight 0"},
      {DoneWith(1, 1, {{kNumScoreBins + 1, 1, 0}}), "metric auc with bin 196609"},
      {DoneWith(1, 1, {{5, 1, 0}, {5, 0, 1}}), "metric auc with bin 5 after bin 5"},
      {DoneWith(1, 1, {{5, 0, 0}}), "0 positive and 0 negative examples; bins must rise"},
      {DoneWith(1, 1, rising), "make batch_size or data.evaluation_block smaller"},
      {DoneWith(1, 1, {{5, 1, 0}}).replace(0, 1, std::string(1, '\x3c')), "DONE that is damaged"}};
  for (const auto& [bytes, why] : wrong) {
    Talk talk;
    StartVersion2(&talk);
    const absl::Status status = talk.Say(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
}

TEST(ProgramConversationTest, AMetricThatIsNotFiniteIsAResult) {
  const auto nan_of = [](const std::string& done) {
    Talk talk;
    StartVersion2(&talk);
    EXPECT_EQ(talk.Say(done), absl::OkStatus());
    std::vector<bool> is_nan;
    for (const MetricSum& metric : talk.conversation.result().metrics) {
      is_nan.push_back(std::isnan(metric.sum));
      EXPECT_TRUE(metric.weight > 0 || !is_nan.back());
    }
    return is_nan;
  };
  EXPECT_EQ(nan_of(DoneWith(NAN, 1, {})), std::vector<bool>({false, true, false}));
  EXPECT_EQ(nan_of(DoneWith(1, INFINITY, {})), std::vector<bool>({false, true, false}));
  EXPECT_EQ(nan_of(DoneWith(NAN, NAN, {})), std::vector<bool>({false, true, false}));
  EXPECT_EQ(nan_of(DoneWith(1, 1, {{5, 1, 0}, {kScoreBinNotFinite, 0, 1}})),
            std::vector<bool>({false, false, true}));
}

TEST(ProgramConversationTest, MetricsOfALossThatIsNotFiniteAreDropped) {
  Talk talk;
  StartVersion2(&talk);
  ASSERT_EQ(talk.Say(DoneWith(NAN, -1, {{9, 1, 1}, {3, 0, 0}}, NAN)), absl::OkStatus());
  for (const MetricSum& metric : talk.conversation.result().metrics) {
    EXPECT_EQ(metric.weight, 0);
    EXPECT_TRUE(metric.histogram.empty());
  }
}

TEST(ProgramConversationTest, RefusesMessagesOutOfPlace) {
  const std::pair<std::string, std::string> wrong[] = {
      {Hello(), "sent HELLO"},
      {Declare({}), "sent DECLARE"},
      {Ready(), "sent READY"},
      {Final(2, {0}), "for work 2"},
      {Final(1, {}), "FINAL that is damaged"},
      {Final(1, {3}), "variable 3 final, but it has only 3"},
      {Final(1, {2}), "FROZEN variable fixed"},
      {Final(1, {0, 0}), "variable w final twice"},
      {Done(2, 0), "for work 2"},
      {Done(1, 0) + "xxxxxxxx", "of an unknown type"},
      {Done(1, 0) + Done(1, 0), "sent DONE (type 5) where it is not allowed"},
      {Done(1, 0, 6, 5), "metric accuracy"},
      {std::string("\xff\xff\xff\x7f\x04\0\0\0", 8), "FINAL with 2147483647 bytes"},
      {std::string(100, '\xee'), "of an unknown type"}};
  for (const auto& [bytes, why] : wrong) {
    Talk talk;
    talk.MakeIdle();
    talk.Start();
    const absl::Status status = talk.Say(bytes);
    EXPECT_EQ(status.code(), absl::StatusCode::kInternal) << why;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why));
  }
  Talk talk;
  talk.MakeIdle();
  talk.Start(/*evaluates=*/true);
  EXPECT_THAT(std::string(talk.Say(Final(1, {0})).message()), HasSubstr("evaluation"));
}

TEST(ProgramConversationTest, TheWorkerEndsWithTheErrorOfTheProgram) {
  Talk talk;
  talk.MakeIdle();
  talk.Start();
  EXPECT_EQ(talk.Say(Error(1)), absl::FailedPreconditionError("program: train.py:3: no"));
  EXPECT_EQ(talk.conversation.traceback(), "Trace\nback");
  Talk other;
  other.MakeIdle();
  EXPECT_EQ(other.Say(Error(2)), absl::InternalError("program: train.py:3: no"));
  Talk first;
  ASSERT_EQ(first.Say(Hello()), absl::OkStatus());
  EXPECT_EQ(first.Say(Error(3)), absl::FailedPreconditionError("program: train.py:3: no"));
  Talk again(/*has_started_before=*/true);
  ASSERT_EQ(again.Say(Hello()), absl::OkStatus());
  EXPECT_EQ(again.Say(Error(3)), absl::UnavailableError("program: train.py:3: no"));
  Talk strange;
  strange.MakeIdle();
  EXPECT_THAT(std::string(strange.Say(Error(4)).message()), HasSubstr("ERROR that is damaged"));
}

TEST(ProgramConversationTest, FinishEndsItOnce) {
  Talk talk;
  talk.MakeIdle();
  talk.Start();
  talk.conversation.output()->clear();
  talk.conversation.Finish(FinishReason::kStopped, "why");
  talk.conversation.Finish(FinishReason::kFailed, "again");
  MessageReader sent(*talk.conversation.output());
  EXPECT_EQ(sent.U32(), 11u);
  EXPECT_EQ(sent.U32(), static_cast<uint32_t>(ProgramMessage::kFinish));
  EXPECT_EQ(sent.U32(), static_cast<uint32_t>(FinishReason::kStopped));
  EXPECT_EQ(sent.Text(100), "why");
  EXPECT_TRUE(sent.is_at_end());
  EXPECT_EQ(talk.Say(Final(1, {0}) + Done(1, 0)), absl::OkStatus());
}

TEST(ProgramConversationTest, AnErrorMayAnswerARefusal) {
  Talk talk;
  talk.MakeIdle();
  EXPECT_EQ(talk.conversation.error_text(), "");
  talk.conversation.Finish(FinishReason::kRefused, "variable 0 is v in the first worker");
  EXPECT_EQ(talk.Say(Error(1)), absl::FailedPreconditionError("program: train.py:3: no"));
  EXPECT_EQ(talk.conversation.error_text(), "train.py:3: no");
}

TEST(ProgramLayoutTest, ArraysAreAlignedAndApart) {
  Talk talk;
  talk.MakeIdle();
  const ProgramLayout layout = LayOut(talk.conversation.declaration().variables);
  EXPECT_EQ(layout.places[0].parameters[0], 0u);
  EXPECT_EQ(layout.places[1].parameters[0], 64u);
  EXPECT_EQ(layout.places[2].parameters[0], 128u);
  EXPECT_EQ(layout.places[0].parameters[1], 4096u);
  EXPECT_EQ(layout.places[2].contributions[1], 4096u + 128);
  EXPECT_EQ(layout.parameter_bytes, 8192u);
}

}  // namespace
}  // namespace shoal
