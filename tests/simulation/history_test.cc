#include "tests/simulation/history.h"

#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

HistoryEvent Event(HistoryEvent::Kind kind, double time, uint64_t term, uint64_t lineage,
                   uint64_t step) {
  HistoryEvent event;
  event.kind = kind;
  event.time = time;
  event.term = term;
  event.lineage = lineage;
  event.step = step;
  return event;
}

HistoryEvent Ended(const std::string& task, int code) {
  HistoryEvent event = Event(HistoryEvent::kEnded, 1, 0, 0, 0);
  event.task = task;
  event.code = code;
  return event;
}

HistoryEvent Failed(double time) {
  HistoryEvent event = Event(HistoryEvent::kFailed, time, 1, 1, 5);
  event.text = "waited 60s for ps/0 to register";
  return event;
}

std::string Check(std::vector<HistoryEvent> events, HistoryRules rules = {}) {
  History history;
  for (HistoryEvent& event : events) history.Add(std::move(event));
  history.Add(Event(HistoryEvent::kOver, 1000, 1, 1, 0));
  return history.Check(rules);
}

TEST(HistoryTest, AGoodRunIsGood) {
  EXPECT_EQ(
      Check({Event(HistoryEvent::kChiefStarts, 0, 1, 0, 0),
             Event(HistoryEvent::kVersion, 1, 1, 1, 5), Event(HistoryEvent::kDurable, 2, 1, 1, 5),
             Ended("worker/0", 138), Event(HistoryEvent::kVersion, 3, 1, 2, 5),
             Event(HistoryEvent::kChiefStarts, 4, 2, 0, 5)}),
      "");
}

TEST(HistoryTest, ARunThatDoesNotEndIsStuck) {
  History history;
  history.Add(Event(HistoryEvent::kVersion, 1, 1, 1, 5));
  EXPECT_THAT(history.Check({}), HasSubstr("did not come to its end"));
}

TEST(HistoryTest, APsThatHasLostAReport) {
  HistoryEvent ended = Ended("ps/0", 138);
  ended.text = "UNAVAILABLE: the chief lacks steps 1 to 2, which this ps does not have";
  EXPECT_THAT(Check({ended}), HasSubstr("ps/0 has lost a report"));
}

TEST(HistoryTest, AVersionThatGoesBackInItsLineage) {
  EXPECT_THAT(
      Check({Event(HistoryEvent::kVersion, 1, 1, 1, 5), Event(HistoryEvent::kVersion, 2, 1, 1, 4)}),
      HasSubstr("lineage 1 goes back from 5 to 4"));
}

TEST(HistoryTest, ADurableCheckpointThatIsLost) {
  EXPECT_THAT(Check({Event(HistoryEvent::kChiefStarts, 0, 1, 0, 0),
                     Event(HistoryEvent::kDurable, 2, 1, 1, 5),
                     Event(HistoryEvent::kChiefStarts, 4, 2, 0, 3)}),
              HasSubstr("the checkpoint of step 5 was durable"));
  EXPECT_THAT(
      Check({Event(HistoryEvent::kDurable, 2, 1, 1, 5), Event(HistoryEvent::kDurable, 3, 1, 1, 4)}),
      HasSubstr("rests on step 4 after step 5"));
}

TEST(HistoryTest, ADamagedCheckpointLeavesTheOneBefore) {
  const std::vector<HistoryEvent> damaged = {Event(HistoryEvent::kDurable, 1, 1, 1, 3),
                                             Event(HistoryEvent::kDurable, 2, 1, 1, 5),
                                             Event(HistoryEvent::kDamaged, 3, 0, 0, 0)};
  std::vector<HistoryEvent> good = damaged, bad = damaged;
  good.push_back(Event(HistoryEvent::kChiefStarts, 4, 2, 0, 3));
  bad.push_back(Event(HistoryEvent::kChiefStarts, 4, 2, 0, 0));
  EXPECT_EQ(Check(good), "");
  EXPECT_THAT(Check(bad), HasSubstr("the checkpoint of step 3 was durable"));
}

TEST(HistoryTest, TwoChiefsOfOneTerm) {
  EXPECT_THAT(Check({Event(HistoryEvent::kChiefStarts, 0, 2, 0, 0),
                     Event(HistoryEvent::kChiefStarts, 1, 2, 0, 0)}),
              HasSubstr("follows one of term 2"));
}

TEST(HistoryTest, PermanentExitCodes) {
  for (const int code : {1, 2, 64, 65, 78}) {
    EXPECT_THAT(Check({Ended("ps/1", code)}), HasSubstr("ps/1 ends with"));
  }
}

TEST(HistoryTest, ATaskThatLosesItsPlaceWithoutReason) {
  HistoryRules rules;
  EXPECT_EQ(Check({Ended("worker/0", 138)}, rules), "");
  rules.places_are_safe = true;
  EXPECT_THAT(Check({Ended("worker/0", 138)}, rules), HasSubstr("end worker/0 with 138"));
  EXPECT_EQ(Check({Ended("worker/0", 0)}, rules), "");  // The chief had said that the run is over.
}

TEST(HistoryTest, ATaskThatLosesItsLeaseWithoutReason) {
  HistoryEvent lost = Event(HistoryEvent::kLost, 1, 1, 0, 0);
  lost.task = "ps/0";
  HistoryRules rules;
  EXPECT_EQ(Check({lost}, rules), "");
  rules.places_are_safe = true;
  EXPECT_THAT(Check({lost}, rules), HasSubstr("cost ps/0 its lease"));
}

TEST(HistoryTest, APsThatServesWithoutALease) {
  HistoryEvent event = Event(HistoryEvent::kActs, 1, 1, 0, 0);
  event.task = "ps/0";
  EXPECT_THAT(Check({event}), HasSubstr("ps/0 serves although its lease has ended"));
}

TEST(HistoryTest, ARunThatFailsWithoutCauseIsBadEvenIfItIsRestartedAndFinishes) {
  EXPECT_THAT(Check({Failed(70)}), HasSubstr("fails although nothing went wrong: waited 60s"));
  HistoryRules rules;
  rules.failure_patience = 33;
  const HistoryEvent fault = Event(HistoryEvent::kTrouble, 10, 0, 0, 0);
  EXPECT_EQ(Check({fault, Failed(43)}, rules), "");
  EXPECT_THAT(Check({fault, Failed(70)}, rules),
              HasSubstr("fails 60.0 s after the last fault ended: waited 60s for ps/0"));
  EXPECT_EQ(Check({fault, Event(HistoryEvent::kTrouble, 40, 0, 0, 0), Failed(70)}, rules), "");
}

TEST(HistoryTest, ARunWithoutCheckpoints) {
  HistoryRules rules;
  rules.save_every = 2;
  rules.patience = 10;
  std::vector<HistoryEvent> events = {Event(HistoryEvent::kChiefStarts, 0, 1, 0, 0)};
  for (int i = 1; i < 20; ++i) {
    events.push_back(Event(HistoryEvent::kVersion, i, 1, 1, static_cast<uint64_t>(i)));
  }
  EXPECT_THAT(Check(events, rules), HasSubstr("no checkpoint since step 0"));
  // Trouble delays checkpoints.
  std::vector<HistoryEvent> late = events;
  late.insert(late.begin() + 10, Event(HistoryEvent::kTrouble, 10, 0, 0, 0));
  EXPECT_EQ(Check(late, rules), "");
}

}  // namespace
}  // namespace shoal
