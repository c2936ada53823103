// The observable events of a simulated run, and the rules that they must satisfy.
#ifndef SHOAL_TESTS_SIMULATION_HISTORY_H_
#define SHOAL_TESTS_SIMULATION_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal {

struct HistoryEvent {
  enum Kind {
    kChiefStarts,  // A chief of `term` starts or resumes the run at `step`.
    kVersion,      // The chief of `term` knows that `lineage` has reached `step`.
    kDurable,      // The chief of `term` reports `step` as its newest durable checkpoint.
    kDamaged,      // The newest checkpoint was damaged: resuming from the one before is allowed.
    kEnded,        // A process of `task` ended with exit code `code`, because of `text`.
    kFailed,       // The chief of `term` has given the run up, because of `text`.
    kActs,         // `task` serves although its lease has expired.
    kLost,         // The chief counts `task` as lost, although its process lives.
    // A fault began, lasts or has just ended: the next checkpoint may be late, and the run may
    // fail.
    kTrouble,
    kOver,  // The run has finished.
  };
  Kind kind;
  double time = 0;
  std::string task;
  uint64_t term = 0;
  uint64_t lineage = 0;
  uint64_t step = 0;
  int code = 0;
  std::string text;
};

struct HistoryRules {
  uint64_t save_every = 0;  // Updates between checkpoints; 0: no schedule is checked.
  // Nothing goes wrong that may end a task before the run is over.
  bool places_are_safe = false;
  // A due checkpoint counts as missing after this many seconds without kTrouble.
  double patience = 0;
  // A run may fail only within so many seconds after the last kTrouble.
  double failure_patience = 0;
};

class History {
 public:
  void Add(HistoryEvent event) { events_.push_back(std::move(event)); }
  const std::vector<HistoryEvent>& events() const { return events_; }

  // Describes the first rule that was broken; empty if none was.
  std::string Check(const HistoryRules& rules) const;

 private:
  std::vector<HistoryEvent> events_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_HISTORY_H_
