#include "chief/session/session_log.h"

#include <string>
#include <variant>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<std::string> TakeTexts(SessionLog* log) {
  std::vector<std::string> texts;
  for (const SessionRecord& record : log->Take()) {
    const auto& note = std::get<SessionNote>(record);
    texts.push_back((note.is_warning ? "W " : "I ") + note.text);
  }
  return texts;
}

TEST(SessionLogTest, RecordsAreTakenOnceAndInOrder) {
  SessionLog log;
  log.Note("first");
  log.Warn("second");
  EXPECT_THAT(TakeTexts(&log), ElementsAre("I first", "W second"));
  EXPECT_THAT(TakeTexts(&log), IsEmpty());
}

TEST(SessionLogTest, ARepeatedRefusalIsNotedEveryTenSecondsAndAnotherOneAtOnce) {
  SessionLog log;
  absl::Time now = absl::UnixEpoch();
  log.NoteRefusal(now, "no plan");
  now += absl::Seconds(9);
  log.NoteRefusal(now, "no plan");
  log.NoteRefusal(now, "no worker");
  EXPECT_THAT(TakeTexts(&log), ElementsAre("I no plan", "I no worker"));
  log.NoteRefusal(now + absl::Seconds(9), "no worker");
  EXPECT_THAT(TakeTexts(&log), IsEmpty());
  log.NoteRefusal(now + absl::Seconds(10), "no worker");
  EXPECT_THAT(TakeTexts(&log), ElementsAre("I no worker"));
}

}  // namespace
}  // namespace shoal
