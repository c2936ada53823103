#ifndef SHOAL_CHIEF_SESSION_SESSION_LOG_H_
#define SHOAL_CHIEF_SESSION_SESSION_LOG_H_

#include <string>
#include <vector>

#include "absl/time/time.h"

#include "chief/session/session_records.h"

namespace shoal {

// Collects the records and log lines of a session, in order, until the session's driver takes them.
class SessionLog {
 public:
  void Add(SessionRecord record);
  // Adds a detail, which only the log shows.
  void Note(std::string text);
  // Add something that the page of the run shows too: an event, or something that went wrong.
  void NoteEvent(std::string text);
  void NoteTrouble(std::string text);
  // Adds news of a trouble that lasts. The page shows only the newest text about a subject.
  void NoteTroubleAbout(std::string subject, std::string text);
  // The same as NoteTrouble, and the log shows it as a warning.
  void Warn(std::string text);
  // Notes that a batch is skipped, which the console shows too.
  void NoteSkip(std::string text);
  // Notes why a request was refused, because a user who asks by a signal sees only the log. The
  // same reason is noted at most every 10 s: repeated requests must not fill the log.
  void NoteRefusal(absl::Time now, const std::string& why);

  std::vector<SessionRecord> Take();

 private:
  std::vector<SessionRecord> records_;
  std::string noted_refusal_;
  absl::Time refusal_noted_ = absl::InfinitePast();
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_SESSION_LOG_H_
