#include "worker/trainer.h"

#include <vector>

#include "absl/strings/string_view.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

ExchangeResult ResultOf(absl::Status status, absl::Span<const PushOutcome> outcomes) {
  ExchangeResult result;
  result.status = std::move(status);
  result.outcomes = outcomes;
  return result;
}

TEST(FatalErrorOfTest, AContributionThatStaysDamagedEndsTheWorker) {
  const std::vector<PushOutcome> taken = {PushOutcome::kAccepted, PushOutcome::kWithheld};
  EXPECT_TRUE(FatalErrorOf(1, ResultOf(absl::OkStatus(), taken)).ok());
  const std::vector<PushOutcome> damaged = {PushOutcome::kAccepted, PushOutcome::kCorrupt};
  EXPECT_TRUE(absl::IsUnavailable(FatalErrorOf(1, ResultOf(absl::OkStatus(), damaged))));
}

TEST(FatalErrorOfTest, ValuesThatStayDamagedEndTheWorkerAndTheHardwareIsNamed) {
  const absl::Status status =
      FatalErrorOf(1, ResultOf(absl::DataLossError("values arrive damaged"), {}));
  EXPECT_TRUE(absl::IsUnavailable(status));
  EXPECT_NE(status.message().find("ps/1 failed"), absl::string_view::npos) << status;
  EXPECT_NE(status.message().find("replace the hardware"), absl::string_view::npos) << status;
}

TEST(FatalErrorOfTest, ErrorsThatRepeatingOrANewViewRepairsDoNot) {
  const std::vector<PushOutcome> none;
  EXPECT_TRUE(FatalErrorOf(1, ResultOf(absl::AbortedError("moved"), none)).ok());
  EXPECT_TRUE(FatalErrorOf(1, ResultOf(absl::UnavailableError("gone"), none)).ok());
  EXPECT_TRUE(FatalErrorOf(1, ResultOf(absl::ResourceExhaustedError("no memory"), none)).ok());
  const std::vector<PushOutcome> damaged_once = {PushOutcome::kCorrupt};
  EXPECT_TRUE(FatalErrorOf(1, ResultOf(absl::AbortedError("moved"), damaged_once)).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(
      FatalErrorOf(1, ResultOf(absl::FailedPreconditionError("run_id"), none))));
  EXPECT_TRUE(absl::IsUnavailable(FatalErrorOf(
      1, ResultOf(absl::ResourceExhaustedError("Received message larger than max"), none))));
}

}  // namespace
}  // namespace shoal
