#ifndef SHOAL_CHIEF_ASYNC_LINES_H_
#define SHOAL_CHIEF_ASYNC_LINES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "chief/session_records.h"

namespace shoal {

// The lines of metrics.jsonl, ASYNC. The ps with the report slice counts them: one per contribution
// applied there. When it came back from a checkpoint, its count went back with it, and the lines
// that it counts again are void; evaluations in them go into the new ones. The newest line is held
// until the next one comes, so that an evaluation can still go into it. One thread at a time.
class AsyncLines {
 public:
  // The first report of an incarnation makes lines from its step on void. A repeated report changes
  // nothing. FailedPrecondition: one between is missing. InvalidArgument: there is no step 0.
  absl::Status Add(uint64_t incarnation, const v1::StepReport& report);

  // The ps with the report slice, of this incarnation, has loaded: it counts on from `step`. Lines
  // above are void. If its first report came before, that has said so, and nothing changes.
  void Restart(uint64_t incarnation, uint64_t step);

  // Made after `updates` updates: goes into the newest line, or into the one that is to come if the
  // ps has not told that much yet.
  void SetEvaluation(uint64_t updates, const EvaluationSums& sums);

  // Nothing more is to be expected: lets go of what is held.
  void Flush();

  std::vector<SessionRecord> Take();

  // Lets go of the newest line if it is `step`, although no other one has come.
  void Release(uint64_t step);

  // The newest step that was reported, held or not.
  uint64_t newest() const { return newest_; }
  // The newest step that was let go.
  uint64_t released() const { return held_.has_value() ? held_->report.step() - 1 : newest_; }

 private:
  struct Evaluation {
    uint64_t updates = 0;
    EvaluationSums sums;
  };

  // Puts the first waiting evaluation into the held line if it belongs there, or if it `must`.
  void Attach(bool must);
  void CutBack();

  uint64_t incarnation_ = 0;
  uint64_t newest_ = 0;
  std::optional<StepLine> held_;
  std::map<uint64_t, EvaluationSums> waiting_;  // for their lines, by updates
  std::map<uint64_t, Evaluation> placed_;       // the latest, by line: it may become void
  std::vector<SessionRecord> records_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_ASYNC_LINES_H_
