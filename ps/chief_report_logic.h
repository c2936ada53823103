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

// What a ps has to report to the chief: when, in which order, and what it keeps.
//
// Steps and poisoned slices are reported in order, as many as have gathered; squared norms when all
// slices of this ps have theirs, so that the chief's answer, the scale, need not wait for what this
// ps still holds. Everything is kept until the chief has it, whatever it answers: a call whose
// outcome is not known is repeated, and so is one that was refused. Only a new lineage drops what
// was not reported. What can no longer be mended is a failure of this ps, which a fresh process
// repairs.
//
// Single-threaded: (now, event or answer) in, the next call out. One call is under way at a time.
class ChiefReportLogic {
 public:
  struct Options {
    size_t most_steps = 1 << 18;  // that wait for the chief; about 20 MiB
    // The chief may refuse the same report for so long.
    absl::Duration refused_patience = absl::Seconds(30);
  };
  // The identities have a lineage only; the caller fills in the rest.
  using Call = std::variant<v1::ReportStepsRequest, v1::ReportNormsRequest>;
  // What the slices that wait for the norm of `step` get.
  struct Scale {
    uint64_t lineage = 0;
    uint64_t step = 0;
    double scale = 0;
  };

  ChiefReportLogic() : ChiefReportLogic(Options()) {}
  explicit ChiefReportLogic(Options options);

  // Forgets what has not been reported. `num_norms`: how many slices of this ps have norms.
  void StartLineage(uint64_t lineage, size_t num_norms);
  void AddSteps(const std::vector<SliceStoreEvents::Step>& steps);
  void AddPoisoned(const std::vector<SliceStoreEvents::Poisoned>& poisoned);
  void AddNorms(const std::vector<SliceStoreEvents::Norm>& norms);

  // The call to make now; none: nothing is due before NextTime(), unless something is added.
  std::optional<Call> Next(absl::Time now);
  absl::Time NextTime() const;

  void OnAnswer(absl::Time now, const v1::ReportStepsRequest& request, const absl::Status& status,
                const v1::ReportStepsResponse& response);
  std::optional<Scale> OnAnswer(absl::Time now, const v1::ReportNormsRequest& request,
                                const absl::Status& status,
                                const v1::ReportNormsResponse& response);

  // UNAVAILABLE: the run needs a fresh process in place of this ps. OK: all is well.
  const absl::Status& failure() const { return failure_; }

 private:
  // The attempts to make one kind of call.
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
  v1::ReportStepsRequest StepsRequest() const;
  v1::ReportNormsRequest NormsRequest() const;
  void Failed(absl::Time now, const absl::Status& status, Attempts* attempts);
  void FailWith(const std::string& why);

  const Options options_;
  uint64_t lineage_ = 0;
  size_t num_norms_ = 0;
  std::vector<SliceStoreEvents::Step> steps_;
  std::vector<SliceStoreEvents::Poisoned> poisoned_;
  std::map<uint64_t, std::vector<SliceStoreEvents::Norm>> norms_;  // By step.
  Attempts steps_attempts_;
  Attempts norms_attempts_;
  bool norms_were_last_ = false;
  absl::Status failure_;
};

}  // namespace shoal

#endif  // SHOAL_PS_CHIEF_REPORT_LOGIC_H_
