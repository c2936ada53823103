// What happened in a simulated run, as seen from outside, and the judgement on it.
#ifndef SHOAL_TESTS_SIMULATION_HISTORY_H_
#define SHOAL_TESTS_SIMULATION_HISTORY_H_

#include <cstdint>
#include <string>
#include <vector>

namespace shoal {

struct HistoryEvent {
  enum Kind {
    kChiefStarts,  // A chief of `term` goes on from `step`.
    kVersion,      // The chief of `term` knows that `lineage` has come to `step`.
    kDurable,      // The run of `term` rests on a checkpoint of `step`.
    kDamaged,      // The newest checkpoint was damaged: the one before may be gone on from.
    kEnded,        // A process of `task` ended with exit code `code`, because of `text`.
    kCounted,      // At the end slice `step` holds batch `lineage` `code` times; `text`: "skipped".
    kActs,         // `task` serves although its lease has ended.
    kTrouble,      // A fault began or ended: checkpoints may be late.
    kOver,         // The run is over: finished.
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
  uint64_t save_every = 0;  // Updates between checkpoints; 0: no schedule to keep.
  bool disks_fail = false;  // For a while: a run whose last checkpoint is due then ends with 1.
  double patience = 0;  // Seconds without trouble after which a checkpoint that is due is missing.
};

class History {
 public:
  void Add(HistoryEvent event) { events_.push_back(std::move(event)); }
  const std::vector<HistoryEvent>& events() const { return events_; }

  // The first promise that was broken, in words; empty: none.
  std::string Check(const HistoryRules& rules) const;

 private:
  std::vector<HistoryEvent> events_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_HISTORY_H_
