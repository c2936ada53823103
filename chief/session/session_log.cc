#include "chief/session/session_log.h"

#include <utility>

namespace shoal {
namespace {

constexpr absl::Duration kSameRefusal = absl::Seconds(10);

}  // namespace

void SessionLog::Add(SessionRecord record) { records_.push_back(std::move(record)); }

void SessionLog::Note(std::string text) {
  Add(SessionNote{std::move(text), SessionNote::Kind::kDetail, false, ""});
}

void SessionLog::NoteEvent(std::string text) {
  Add(SessionNote{std::move(text), SessionNote::Kind::kEvent, false, ""});
}

void SessionLog::NoteTrouble(std::string text) { NoteTroubleAbout("", std::move(text)); }

void SessionLog::NoteTroubleAbout(std::string subject, std::string text) {
  Add(SessionNote{std::move(text), SessionNote::Kind::kTrouble, false, std::move(subject)});
}

void SessionLog::Warn(std::string text) {
  Add(SessionNote{std::move(text), SessionNote::Kind::kTrouble, /*is_warning=*/true, ""});
}

void SessionLog::NoteSkip(std::string text) {
  Add(SessionNote{std::move(text), SessionNote::Kind::kSkip, false, ""});
}

void SessionLog::NoteRefusal(absl::Time now, const std::string& why) {
  if (why == noted_refusal_ && now < refusal_noted_ + kSameRefusal) return;
  noted_refusal_ = why;
  refusal_noted_ = now;
  Note(why);
}

std::vector<SessionRecord> SessionLog::Take() { return std::exchange(records_, {}); }

}  // namespace shoal
