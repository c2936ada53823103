#ifndef SHOAL_PS_CHIEF_REPORT_LOGIC_H_
#define SHOAL_PS_CHIEF_REPORT_LOGIC_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"

#include "proto/v1/chief_service.pb.h"
#include "runtime/rpc/retry.h"
#include "runtime/variables/slice_store_events.h"

namespace shoal {

// Decides what a ps reports to the chief, when, and in which order, and keeps each report until the
// chief has acknowledged it.
//
// Steps and poisoned slices are reported in order, in one call as many as have gathered. Steps that
// nothing waits for are gathered for `steps_period` after the last report, because a call for each
// short step costs the chief and the ps as much time as the step itself. Squared
// norms are reported once all slices of this ps have theirs, because the chief can compute the
// scale only from all of them; many slices take several calls. A call that fails, or whose outcome
// is unknown, is repeated until the chief acknowledges it; only a new lineage drops what was not
// reported. If too many steps wait, or the chief refuses a report for too long, this ps fails, and
// a fresh process takes its place.
//
// Not thread-safe. It takes (now, event or answer) and returns the next call. One call is under way
// at a time.
class ChiefReportLogic {
 public:
  struct Options {
    // The most steps that may wait for the chief; about 25 MiB, and 10 MiB for each metric.
    size_t most_steps = 1 << 18;
    // The longest time that the chief may refuse the same report before this ps fails.
    absl::Duration refused_patience = absl::Seconds(30);
    // The time from one report of steps to the next, unless something waits for them.
    absl::Duration steps_period = absl::Milliseconds(20);
  };
  // The identities in the requests have only the lineage; the caller fills in the rest.
  using Call = std::variant<v1::ReportStepsRequest, v1::ReportNormsRequest>;
  // The chief's answer to norms: the factor for the slices that wait for the norm of `step`.
  struct Scale {
    uint64_t lineage = 0;
    uint64_t step = 0;
    double scale = 0;
  };

  ChiefReportLogic() : ChiefReportLogic(Options()) {}
  explicit ChiefReportLogic(Options options);

  // Forgets what has not been reported. `num_norms` is the number of slices of this ps that have
  // norms.
  void StartLineage(uint64_t lineage, size_t num_norms);
  void AddSteps(const std::vector<SliceStoreEvents::Step>& steps);
  // Makes the next report due at once: a checkpoint, or the end of the run, waits for its steps.
  void HurrySteps() { must_hurry_ = true; }
  void AddPoisoned(const std::vector<SliceStoreEvents::Poisoned>& poisoned);
  void AddNorms(const std::vector<SliceStoreEvents::Norm>& norms);

  // Returns the call to make now. Without one, nothing is due before NextTime() unless something is
  // added.
  std::optional<Call> Next(absl::Time now);
  absl::Time NextTime() const;

  void OnAnswer(absl::Time now, const v1::ReportStepsRequest& request, const absl::Status& status,
                const v1::ReportStepsResponse& response);
  // If it returns a scale, the caller applies it and then calls OnScaled with the result.
  std::optional<Scale> OnAnswer(absl::Time now, const v1::ReportNormsRequest& request,
                                const absl::Status& status,
                                const v1::ReportNormsResponse& response);
  // Takes the result of applying a scale. If it was not applied, because the lease of this ps has
  // ended, the norms are reported again.
  void OnScaled(absl::Time now, const Scale& scale, const absl::Status& status);

  // Returns UNAVAILABLE if the run needs a fresh process in place of this ps, otherwise OK.
  const absl::Status& failure() const { return failure_; }

 private:
  // The state of the attempts to make one kind of call.
  struct Attempts {
    void Reset() {
      backoff.Reset();
      due = warn = absl::InfinitePast();
      refused_since = absl::InfiniteFuture();
    }

    Backoff backoff{1, absl::Milliseconds(50), absl::Seconds(1)};
    absl::Time due = absl::InfinitePast();
    absl::Time refused_since = absl::InfiniteFuture();
    absl::Time warn = absl::InfinitePast();
  };

  bool HasSteps() const { return !steps_.empty() || !poisoned_.empty(); }
  bool HasNorms() const { return !norms_.empty() && norms_.begin()->second.size() >= num_norms_; }
  absl::Time StepsDue() const;
  v1::ReportStepsRequest StepsRequest() const;
  v1::ReportNormsRequest NormsRequest() const;
  void Failed(absl::Time now, const absl::Status& status, Attempts* attempts);
  void FailWith(const std::string& why);

  const Options options_;
  uint64_t lineage_ = 0;
  size_t num_norms_ = 0;
  std::vector<SliceStoreEvents::Step> steps_;
  std::vector<SliceStoreEvents::Poisoned> poisoned_;
  std::map<uint64_t, std::vector<SliceStoreEvents::Norm>> norms_;  // Keyed by step.
  size_t norms_reported_ = 0;  // Norms of the first step that earlier calls have reported.
  absl::Time next_report_ = absl::InfinitePast();  // When steps that nothing waits for are due.
  bool must_hurry_ = false;
  Attempts steps_attempts_;
  Attempts norms_attempts_;
  bool norms_were_last_ = false;
  absl::Status failure_;
};

}  // namespace shoal

#endif  // SHOAL_PS_CHIEF_REPORT_LOGIC_H_
