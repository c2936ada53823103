#include "tests/chaos/fault_rules.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/status_matchers.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr char kSteps[] = "/shoal.v1.ChiefService/ReportSteps";
constexpr char kBeat[] = "/shoal.v1.ChiefService/Heartbeat";

FaultRules With(absl::string_view text) {
  FaultRules rules(1);
  EXPECT_OK(rules.Add(*ParseFaultRule(text)));
  return rules;
}

TEST(FaultRulesTest, DisturbsTheNthCallOfAMethodOnly) {
  FaultRules rules = With("r kind=error code=13 method=ReportSteps after=2 count=1");
  std::vector<bool> disturbed;
  for (int i = 0; i < 5; ++i) {
    EXPECT_EQ(rules.Decide("chief", kBeat, "ps/0", 10).kind, FaultKind::kNone);
    disturbed.push_back(rules.Decide("chief", kSteps, "ps/0", 10).kind == FaultKind::kError);
  }
  EXPECT_EQ(disturbed, (std::vector<bool>{false, false, true, false, false}));
  EXPECT_THAT(rules.Counts(), HasSubstr("\"r\": {\"matched\": 5, \"disturbed\": 1}"));
  EXPECT_THAT(rules.Counts(), HasSubstr("\"chief Heartbeat\": {\"calls\": 5, \"bytes\": 50}"));
}

TEST(FaultRulesTest, ALinkIsOneSenderAndOneTarget) {
  FaultRules rules = With("cut kind=drop link=ps1 from=worker/1");
  EXPECT_EQ(rules.Decide("ps1", kSteps, "worker/1", 10).kind, FaultKind::kDrop);
  EXPECT_EQ(rules.Decide("ps1", kSteps, "worker/0", 10).kind, FaultKind::kNone);
  EXPECT_EQ(rules.Decide("ps0", kSteps, "worker/1", 10).kind, FaultKind::kNone);
  EXPECT_OK(rules.Remove("cut"));
  EXPECT_EQ(rules.Decide("ps1", kSteps, "worker/1", 10).kind, FaultKind::kNone);
}

TEST(FaultRulesTest, ChanceIsAShareOfTheCalls) {
  FaultRules rules = With("loss kind=drop chance=0.25");
  int dropped = 0;
  for (int i = 0; i < 4000; ++i) {
    dropped += rules.Decide("ps0", kSteps, "", 10).kind == FaultKind::kDrop ? 1 : 0;
  }
  EXPECT_NEAR(dropped, 1000, 150);
}

TEST(FaultRulesTest, NamesTheErrorInARule) {
  EXPECT_THAT(ParseFaultRule("r kind=eat").status().message(), HasSubstr("none of error"));
  EXPECT_THAT(ParseFaultRule("r kind=drop chance=x").status().message(), HasSubstr("chance=x"));
  EXPECT_THAT(ParseFaultRule("r").status().message(), HasSubstr("needs a name and kind"));
  FaultRules rules = With("r kind=drop");
  EXPECT_EQ(rules.Add(*ParseFaultRule("r kind=drop")).code(), absl::StatusCode::kAlreadyExists);
  EXPECT_EQ(rules.Remove("other").code(), absl::StatusCode::kNotFound);
}

}  // namespace
}  // namespace shoal
