#ifndef SHOAL_CHIEF_SESSION_ASYNC_LINES_H_
#define SHOAL_CHIEF_SESSION_ASYNC_LINES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "absl/status/status.h"

#include "chief/session/session_records.h"

namespace shoal {

// The lines of metrics.jsonl in asynchronous training. The ps with the report slice counts them:
// one per contribution applied there. When the ps returns to a checkpoint, its count returns with
// it, and the lines that it counts again are void; evaluations of void lines are attached to the
// new lines. The newest line is held until the next one comes, so that an evaluation can still be
// added to it. Not thread-safe.
class AsyncLines {
 public:
  // Takes the report of a step. The first report of an incarnation makes the lines from its step on
  // void. A repeated report, and one of an earlier incarnation, changes nothing. Returns
  // FailedPrecondition if a step before it is missing, InvalidArgument for step 0.
  absl::Status Add(uint64_t incarnation, const v1::StepReport& report);

  // Notes that this incarnation of the ps with the report slice has loaded a checkpoint and
  // continues to count from `step`. Later lines become void. Has no effect after the incarnation's
  // first report, which has made them void already.
  void Restart(uint64_t incarnation, uint64_t step);

  // Adds an evaluation that was made after `updates` updates to the newest line, or to a later one
  // if the ps has not reported so many yet.
  void SetEvaluation(uint64_t updates, const EvaluationSums& sums);

  // Releases the held line, with the first waiting evaluation if it has none: no more lines come.
  void Flush();

  // Returns the released lines and the rollbacks since the last call, in order.
  std::vector<SessionRecord> Take();

  // Releases the newest line if it is `step`, although no later one has come.
  void Release(uint64_t step);

  // Returns the newest step that was reported, held or not.
  uint64_t newest() const { return newest_; }
  // Returns the newest step that was released.
  uint64_t released() const { return held_.has_value() ? held_->report.step() - 1 : newest_; }

 private:
  struct Evaluation {
    uint64_t updates = 0;
    EvaluationSums sums;
  };

  // Adds the first waiting evaluation to the held line if it belongs there, or in any case if
  // `must`.
  void Attach(bool must);
  void CutBack();

  uint64_t incarnation_ = 0;
  uint64_t newest_ = 0;
  std::optional<StepLine> held_;
  std::map<uint64_t, EvaluationSums> waiting_;  // Evaluations without a line yet, by updates.
  // The latest evaluations, keyed by line, because their lines may become void.
  std::map<uint64_t, Evaluation> placed_;
  std::vector<SessionRecord> records_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_ASYNC_LINES_H_
