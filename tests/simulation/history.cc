#include "tests/simulation/history.h"

#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

#include "runtime/process/exit_code.h"

namespace shoal {
namespace {

std::string At(const HistoryEvent& event, const std::string& what) {
  return absl::StrFormat("%.3f s: %s", event.time, what);
}

// Every fault of a simulation passes: a task that it ends must ask to be started again.
bool MayEndWith(int code) {
  return code == kExitDone || code == kExitRestartMe || code == kExitTerminated;
}

class Checker {
 public:
  explicit Checker(const HistoryRules& rules) : rules_(rules) {}

  std::string Take(const HistoryEvent& event) {
    switch (event.kind) {
      case HistoryEvent::kChiefStarts:
        return ChiefStarts(event);
      case HistoryEvent::kVersion:
        return Version(event);
      case HistoryEvent::kDurable:
        return Durable(event);
      case HistoryEvent::kDamaged:
        if (!durable_.empty()) durable_.pop_back();
        quiet_since_ = last_trouble_ = event.time;
        return "";
      case HistoryEvent::kEnded:
        quiet_since_ = event.time;
        if (absl::StrContains(event.text, "which this ps does not have")) {
          return At(event, absl::StrCat(event.task, " has lost a report: ", event.text));
        }
        if (rules_.places_are_safe && !over_ && event.code != kExitDone) {
          return At(event, absl::StrCat("pauses of the chief and forged terms alone end ",
                                        event.task, " with ", event.code, ": ", event.text));
        }
        if (MayEndWith(event.code)) return "";
        return At(event, absl::StrCat(event.task, " ends with ", event.code, ": ", event.text));
      case HistoryEvent::kFailed:
        return Failed(event);
      case HistoryEvent::kActs:
        return At(event, absl::StrCat(event.task, " serves although its lease has ended"));
      case HistoryEvent::kLost:
        if (!rules_.places_are_safe || over_) return "";
        return At(event, absl::StrCat("pauses of the chief and forged terms alone cost ",
                                      event.task, " its lease"));
      case HistoryEvent::kTrouble:
        quiet_since_ = last_trouble_ = event.time;
        return "";
      case HistoryEvent::kOver:
        over_ = true;
        return "";
    }
    return "";
  }

  bool over() const { return over_; }

 private:
  std::string ChiefStarts(const HistoryEvent& event) {
    quiet_since_ = event.time;
    if (event.term <= term_) {
      return At(event,
                absl::StrCat("a chief of term ", event.term, " follows one of term ", term_));
    }
    term_ = event.term;
    cut_step_ = event.step;
    const uint64_t newest = durable_.empty() ? 0 : durable_.back();
    if (event.step < newest) {
      return At(event, absl::StrCat("a chief resumes from step ", event.step,
                                    ", but the checkpoint of step ", newest, " was durable"));
    }
    return "";
  }

  std::string Version(const HistoryEvent& event) {
    uint64_t& version = versions_[{event.term, event.lineage}];
    if (event.step < version) {
      return At(event, absl::StrCat("lineage ", event.lineage, " goes back from ", version, " to ",
                                    event.step));
    }
    version = event.step;
    if (event.term < term_) return "";  // A chief whose time is over.
    if (event.lineage != lineage_) quiet_since_ = event.time;
    lineage_ = event.lineage;
    if (rules_.save_every == 0 || event.step < cut_step_ + 2 * rules_.save_every) {
      due_since_ = event.time;
      return "";
    }
    const double since = std::max(due_since_, quiet_since_);
    if (event.time - since <= rules_.patience) return "";
    return At(event,
              absl::StrCat("no checkpoint since step ", cut_step_, " although one is made every ",
                           rules_.save_every, " steps and step ", event.step, " is reached"));
  }

  std::string Durable(const HistoryEvent& event) {
    if (event.term < term_) return "";
    cut_step_ = std::max(cut_step_, event.step);
    if (!durable_.empty() && event.step < durable_.back()) {
      return At(event, absl::StrCat("the run rests on step ", event.step, " after step ",
                                    durable_.back(), " was durable"));
    }
    if (durable_.empty() || event.step > durable_.back()) durable_.push_back(event.step);
    return "";
  }

  // Even if the run is started again and finishes: a supervisor may allow only so many restarts.
  std::string Failed(const HistoryEvent& event) const {
    if (last_trouble_ < 0) {
      return At(event, absl::StrCat("the run fails although nothing went wrong: ", event.text));
    }
    const double after = event.time - last_trouble_;
    if (after <= rules_.failure_patience) return "";
    return At(event, absl::StrFormat("the run fails %.1f s after the last fault ended: %s", after,
                                     event.text));
  }

  const HistoryRules rules_;
  uint64_t term_ = 0;
  uint64_t lineage_ = 0;
  std::map<std::pair<uint64_t, uint64_t>, uint64_t> versions_;  // By term and lineage.
  std::vector<uint64_t> durable_;                               // Rising.
  uint64_t cut_step_ = 0;
  double quiet_since_ = 0;  // When something last happened that may delay a checkpoint.
  double due_since_ = 0;
  double last_trouble_ = -1;  // negative if there has been none yet
  bool over_ = false;
};

}  // namespace

std::string History::Check(const HistoryRules& rules) const {
  Checker checker(rules);
  for (const HistoryEvent& event : events_) {
    std::string broken = checker.Take(event);
    if (!broken.empty()) return broken;
  }
  return checker.over() ? "" : "the run did not come to its end";
}

}  // namespace shoal
