#include "ps/chief_report_logic.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/time/time.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/rpc/norms_call.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {
namespace {

class ChiefReportLogicTest : public testing::Test {
 protected:
  ChiefReportLogicTest() { logic_.StartLineage(1, /*num_norms=*/1); }

  void AddSteps(uint64_t first, uint64_t last) {
    std::vector<SliceStoreEvents::Step> steps;
    for (uint64_t step = first; step <= last; ++step) {
      steps.emplace_back();
      steps.back().step = step;
    }
    logic_.AddSteps(steps);
  }

  void AddNorm(uint64_t step) {
    SliceStoreEvents::Norm norm;
    norm.step = step;
    norm.squared_norm = 4;
    logic_.AddNorms({norm});
  }

  // The steps that are sent now; empty: none are. Moves the clock to when they are due.
  v1::ReportStepsRequest NextSteps() {
    now_ = std::max(now_, logic_.NextTime());
    const std::optional<ChiefReportLogic::Call> call = logic_.Next(now_);
    if (!call.has_value()) return {};
    return std::get<v1::ReportStepsRequest>(*call);
  }
  static std::vector<uint64_t> NumbersOf(const v1::ReportStepsRequest& request) {
    std::vector<uint64_t> numbers;
    for (const v1::StepReport& step : request.steps()) numbers.push_back(step.step());
    return numbers;
  }
  void Answer(const v1::ReportStepsRequest& request, uint64_t newest) {
    v1::ReportStepsResponse response;
    response.set_newest_step(newest);
    logic_.OnAnswer(now_, request, absl::OkStatus(), response);
  }
  void Refuse(const v1::ReportStepsRequest& request, const absl::Status& status) {
    logic_.OnAnswer(now_, request, status, v1::ReportStepsResponse());
  }

  ChiefReportLogic logic_;
  absl::Time now_ = absl::FromUnixSeconds(1000);
};

using Numbers = std::vector<uint64_t>;

TEST_F(ChiefReportLogicTest, StepsAreKeptUntilTheChiefHasThemWhateverItAnswers) {
  AddSteps(1, 2);
  for (const absl::Status& status :
       {absl::InternalError("stream reset"), absl::ResourceExhaustedError("quota"),
        absl::UnknownError("?"), absl::UnavailableError("gone"), absl::AbortedError("moved"),
        absl::FailedPreconditionError("no plan yet")}) {
    const v1::ReportStepsRequest sent = NextSteps();
    EXPECT_EQ(NumbersOf(sent), (Numbers{1, 2})) << status;
    Refuse(sent, status);
    EXPECT_FALSE(logic_.Next(now_).has_value()) << "sent again without a pause after " << status;
  }
  const v1::ReportStepsRequest sent = NextSteps();
  AddSteps(3, 3);
  Answer(sent, 2);
  EXPECT_EQ(NumbersOf(NextSteps()), (Numbers{3}));
  EXPECT_TRUE(logic_.failure().ok());
}

TEST_F(ChiefReportLogicTest, ShortStepsAreReportedTogether) {
  AddSteps(1, 1);
  const v1::ReportStepsRequest first = NextSteps();
  EXPECT_EQ(NumbersOf(first), (Numbers{1}));
  const absl::Time reported = now_;
  Answer(first, 1);
  now_ += absl::Milliseconds(2);
  AddSteps(2, 2);
  EXPECT_FALSE(logic_.Next(now_).has_value());
  now_ += absl::Milliseconds(2);
  AddSteps(3, 3);
  EXPECT_EQ(logic_.NextTime(), reported + absl::Milliseconds(20));
  const v1::ReportStepsRequest second = NextSteps();
  EXPECT_EQ(NumbersOf(second), (Numbers{2, 3}));
  Answer(second, 3);
  // A step that takes longer is reported when it is made.
  now_ += absl::Milliseconds(30);
  AddSteps(4, 4);
  EXPECT_LE(logic_.NextTime(), now_);
  EXPECT_EQ(NumbersOf(NextSteps()), (Numbers{4}));
}

TEST_F(ChiefReportLogicTest, StepsThatSomethingWaitsForAreReportedAtOnce) {
  AddSteps(1, 1);
  Answer(NextSteps(), 1);
  AddSteps(2, 2);
  ASSERT_FALSE(logic_.Next(now_).has_value());
  logic_.HurrySteps();
  const std::optional<ChiefReportLogic::Call> of_a_cut = logic_.Next(now_);
  ASSERT_TRUE(of_a_cut.has_value());
  Answer(std::get<v1::ReportStepsRequest>(*of_a_cut), 2);

  AddSteps(3, 3);
  ASSERT_FALSE(logic_.Next(now_).has_value()) << "only one report was to hurry";
  SliceStoreEvents::Poisoned poisoned;
  poisoned.slice = 5;
  logic_.AddPoisoned({poisoned});
  const std::optional<ChiefReportLogic::Call> of_a_failure = logic_.Next(now_);
  ASSERT_TRUE(of_a_failure.has_value());
  Answer(std::get<v1::ReportStepsRequest>(*of_a_failure), 3);

  AddSteps(4, 1003);
  EXPECT_TRUE(logic_.Next(now_).has_value()) << "a call would not take more";
}

TEST_F(ChiefReportLogicTest, MissingReportsAreSentAgainFromTheFirstMissingStep) {
  AddSteps(1, 5);
  Answer(NextSteps(), 2);
  EXPECT_EQ(NumbersOf(NextSteps()), (Numbers{3, 4, 5}));
}

TEST_F(ChiefReportLogicTest, AChiefThatTakesNothingIsAskedAgainAfterAPause) {
  AddSteps(4, 5);
  Answer(NextSteps(), 3);
  EXPECT_FALSE(logic_.Next(now_).has_value());
  EXPECT_EQ(NumbersOf(NextSteps()), (Numbers{4, 5}));
  EXPECT_TRUE(logic_.failure().ok());
}

TEST_F(ChiefReportLogicTest, AGapThatThisPsCannotFillEndsItForAnotherTry) {
  AddSteps(4, 5);
  Answer(NextSteps(), 1);
  EXPECT_TRUE(absl::IsUnavailable(logic_.failure()));
  EXPECT_TRUE(absl::StrContains(logic_.failure().message(), "steps 2 to 3")) << logic_.failure();
}

TEST_F(ChiefReportLogicTest, TheRunsEndTakesAllThatWasSent) {
  AddSteps(7, 8);
  const v1::ReportStepsRequest sent = NextSteps();
  AddSteps(9, 9);
  Answer(sent, UINT64_MAX);
  EXPECT_EQ(NumbersOf(NextSteps()), (Numbers{9}));
  EXPECT_TRUE(logic_.failure().ok());
}

TEST_F(ChiefReportLogicTest, MoreStepsThanMayWaitEndThePsForAnotherTry) {
  ChiefReportLogic::Options options;
  options.most_steps = 2;
  ChiefReportLogic bounded(options);
  bounded.AddSteps(std::vector<SliceStoreEvents::Step>(2));
  EXPECT_TRUE(bounded.failure().ok());
  bounded.AddSteps(std::vector<SliceStoreEvents::Step>(1));
  EXPECT_TRUE(absl::IsUnavailable(bounded.failure()));
}

TEST_F(ChiefReportLogicTest, AReportThatStaysRefusedEndsThePsForAnotherTry) {
  AddSteps(1, 1);
  const absl::Time begin = now_;
  while (logic_.failure().ok() && now_ < begin + absl::Minutes(5)) {
    Refuse(NextSteps(), absl::InvalidArgumentError("only ps report steps"));
  }
  EXPECT_TRUE(absl::IsUnavailable(logic_.failure()));
  EXPECT_TRUE(absl::StrContains(logic_.failure().message(), "only ps report")) << logic_.failure();
  EXPECT_GE(now_ - begin, absl::Seconds(30));
}

TEST_F(ChiefReportLogicTest, AChiefThatDoesNotAnswerIsAskedForEver) {
  AddSteps(1, 1);
  const absl::Time begin = now_;
  while (now_ < begin + absl::Hours(1)) Refuse(NextSteps(), absl::UnavailableError("gone"));
  EXPECT_TRUE(logic_.failure().ok());
}

TEST_F(ChiefReportLogicTest, OnlyANewLineageDropsWhatWasNotReported) {
  AddSteps(1, 3);
  AddNorm(4);
  ASSERT_TRUE(logic_.Next(now_).has_value());  // the norm
  const v1::ReportStepsRequest old = NextSteps();
  logic_.StartLineage(2, 1);
  EXPECT_EQ(logic_.NextTime(), absl::InfiniteFuture());
  AddSteps(1, 1);
  Answer(old, 3);  // late, of the lineage that is over
  EXPECT_EQ(NumbersOf(NextSteps()), (Numbers{1}));
}

TEST_F(ChiefReportLogicTest, ANormIsAskedForUntilTheChiefHasTheScale) {
  AddSteps(1, 1);
  AddNorm(2);
  v1::ReportNormsResponse response;
  for (const absl::Status& status : {absl::InternalError("stream reset"), absl::OkStatus()}) {
    now_ = std::max(now_, logic_.NextTime());
    std::optional<ChiefReportLogic::Call> call = logic_.Next(now_);
    ASSERT_TRUE(call.has_value());
    const auto norms = std::get<v1::ReportNormsRequest>(*call);
    EXPECT_EQ(norms.step(), 2u);
    EXPECT_FALSE(logic_.OnAnswer(now_, norms, status, response).has_value());
    // Steps do not wait behind a norm that others have not sent.
    Refuse(NextSteps(), absl::UnavailableError("gone"));
    now_ += absl::Seconds(1);
  }
  response.set_ready(true);
  response.set_scale(0.5);
  const auto norms = std::get<v1::ReportNormsRequest>(*logic_.Next(now_));
  const auto scale = logic_.OnAnswer(now_, norms, absl::OkStatus(), response);
  ASSERT_TRUE(scale.has_value());
  EXPECT_EQ(scale->lineage, 1u);
  EXPECT_EQ(scale->step, 2u);
  EXPECT_EQ(scale->scale, 0.5);
  logic_.OnScaled(now_, *scale, absl::OkStatus());
  EXPECT_TRUE(std::holds_alternative<v1::ReportStepsRequest>(*logic_.Next(now_)));
}

// A control message has at most 1 MiB.
TEST_F(ChiefReportLogicTest, TheNormsOfManySlicesAreReportedInSeveralCalls) {
  constexpr uint32_t kPart = kMostNormsInACall;
  for (const uint32_t num_slices : {2 * kPart, 3 * kPart - 1}) {
    SCOPED_TRACE(num_slices);
    logic_.StartLineage(1, num_slices);
    std::vector<SliceStoreEvents::Norm> norms(num_slices);
    for (uint32_t i = 0; i < num_slices; ++i) norms[i] = {2, 700000 + i, 4};
    logic_.AddNorms(norms);
    std::vector<int> sizes;
    std::set<uint32_t> slices;
    v1::ReportNormsResponse response;
    // The first call fails, and the chief has not got all norms of others when it answers the last.
    for (int call = 0; call < 5; ++call) {
      now_ = std::max(now_, logic_.NextTime());
      const auto part = std::get<v1::ReportNormsRequest>(*logic_.Next(now_));
      EXPECT_EQ(part.step(), 2u);
      EXPECT_LT(part.ByteSizeLong(), size_t{1} << 19);
      sizes.push_back(part.slices_size());
      slices.insert(part.slices().begin(), part.slices().end());
      response.set_ready(call == 4);
      const absl::Status status =
          call == 0 ? absl::UnavailableError("connection reset") : absl::OkStatus();
      const auto scale = logic_.OnAnswer(now_, part, status, response);
      ASSERT_EQ(scale.has_value(), call == 4);
      if (scale.has_value()) logic_.OnScaled(now_, *scale, absl::OkStatus());
    }
    const int last = static_cast<int>(num_slices - 2 * kPart);
    EXPECT_EQ(sizes, (std::vector<int>{kPart, kPart, kPart, last, last}));
    EXPECT_EQ(slices.size(), num_slices);
    EXPECT_EQ(logic_.NextTime(), absl::InfiniteFuture());
    norms.resize(1);
    logic_.StartLineage(1, 1);
    logic_.AddNorms(norms);
    EXPECT_EQ(std::get<v1::ReportNormsRequest>(*logic_.Next(now_)).slices_size(), 1);
  }
}

// A ps whose lease has ended applies nothing. Without the scale its slices would wait for ever.
TEST_F(ChiefReportLogicTest, AScaleThatCouldNotBeAppliedIsAskedForAgain) {
  AddNorm(2);
  v1::ReportNormsResponse response;
  response.set_ready(true);
  response.set_scale(0.5);
  for (const absl::Status& status :
       {absl::UnavailableError("this ps cannot reach the chief"), absl::OkStatus()}) {
    now_ = std::max(now_, logic_.NextTime());
    const std::optional<ChiefReportLogic::Call> call = logic_.Next(now_);
    ASSERT_TRUE(call.has_value()) << status;
    const auto norms = std::get<v1::ReportNormsRequest>(*call);
    const auto scale = logic_.OnAnswer(now_, norms, absl::OkStatus(), response);
    ASSERT_TRUE(scale.has_value()) << status;
    logic_.OnScaled(now_, *scale, status);
    EXPECT_FALSE(logic_.Next(now_).has_value()) << "sent again without a pause after " << status;
  }
  EXPECT_EQ(logic_.NextTime(), absl::InfiniteFuture());
}

TEST_F(ChiefReportLogicTest, AScaleOfAnOldLineageLeavesTheNormsOfTheNewOne) {
  logic_.StartLineage(2, 1);
  AddNorm(2);
  logic_.OnScaled(now_, {1, 2, 0.5}, absl::OkStatus());
  EXPECT_TRUE(logic_.Next(now_).has_value());
}

TEST_F(ChiefReportLogicTest, APoisonedSliceIsReportedUntilTheChiefKnows) {
  SliceStoreEvents::Poisoned poisoned;
  poisoned.slice = 5;
  logic_.AddPoisoned({poisoned});
  const v1::ReportStepsRequest sent = NextSteps();
  EXPECT_EQ(sent.poisoned(0).slice(), 5u);
  Refuse(sent, absl::InternalError("stream reset"));
  EXPECT_EQ(NextSteps().poisoned_size(), 1);
  Answer(sent, 0);
  EXPECT_EQ(logic_.NextTime(), absl::InfiniteFuture());
}

}  // namespace
}  // namespace shoal
