#ifndef SHOAL_CHIEF_SESSION_ASYNC_SESSION_H_
#define SHOAL_CHIEF_SESSION_ASYNC_SESSION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "base/interval_set.h"
#include "chief/ledgers/data_ledger.h"
#include "chief/session/async_lines.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

// The state of an asynchronous run, for AsyncMode. It knows which worker computes which batch
// (DataLedger), lets a restarted ps return while the others train, decides when a cut is made and
// what it contains, and keeps the lines of metrics.jsonl (AsyncLines).
//
//   a ps:  lost --loaded--> asked which batches it has --all answered--> serving
//            ^                                                             |
//            +-------------------- its lease ended, or it came back -------+
//   The batches that it lacks are leased again, for it alone.
//
//   a cut: every `save_every` updates, on request, and when all is done; one at a time, and only
//   while all ps serve. Its name is the number of updates, or one above the last name. The ledger
//   is serialized when the cut is requested: updates that the shards contain beyond it count as
//   duplicates later. A lost ps ends the cut under way, unless its manifest is being written: then
//   the cut is complete, and the ps loads afterwards.
//   A cut becomes a checkpoint only when metrics.jsonl has the lines of all updates that it
//   contains, because the ps that counts the lines may die at any time.
//
// Not thread-safe; it has no clock. Repeated and late messages change nothing.
class AsyncSession {
 public:
  struct Options {
    DataLedger::Options ledger;
    uint32_t num_ps = 1;
    uint32_t reporter = 0;                // The ps with the report slice.
    uint64_t save_every = 0;              // Updates between two cuts; 0: once an epoch.
    std::optional<uint64_t> resumed_cut;  // The name of the cut that the run resumes from.
  };

  // All ps count as lost at the beginning.
  AsyncSession(const Options& options, const StepPlan& plan);

  // Restores the ledger from a manifest. Call it before anything else. Errors are those of
  // DataLedger::Restore.
  absl::Status Restore(absl::string_view ledger) { return ledger_.Restore(ledger); }

  // --- Workers.
  void OnWorkerLost(uint32_t worker, uint64_t incarnation) {
    ledger_.OnWorkerLost(worker, incarnation);
  }
  DataLedger& ledger() { return ledger_; }
  const DataLedger& ledger() const { return ledger_; }

  // --- Parameter servers.
  void OnPsLost(uint32_t ps);
  void OnLoaded(uint32_t ps, uint64_t incarnation, const v1::LoadSlicesResponse& response);
  // Returns the epochs to ask the ps about with GetApplied; none if the ps is not loaded or serves
  // already.
  std::vector<uint32_t> EpochsToAsk(uint32_t ps) const;
  // Takes the answer of a ps to GetApplied. Returns true if no answer is missing any more; then
  // call Serve.
  bool AddApplied(uint32_t ps, uint32_t epoch, const v1::GetAppliedResponse& response);
  // Lets the ps serve from now on; `view` is the first view in which all workers know it. Errors
  // are those of DataLedger::OnPsReturned.
  absl::Status Serve(uint32_t ps, uint64_t view);
  bool all_serve() const;

  // --- Cuts.
  // Makes a cut due as soon as possible.
  void WantCut() { cut_is_wanted_ = true; }
  // Begins a cut if one is due, and returns its name. `stopping`: the run ends with it.
  std::optional<uint64_t> BeginCut(bool stopping);
  // Returns the name that a cut would get if it began now.
  uint64_t NextCutName() const;
  struct Cut {
    uint64_t name = 0;
    std::string ledger;             // The serialized ledger, when the cut was requested.
    uint32_t first_open_epoch = 0;  // The cut contains all epochs before as a whole.
    uint64_t updates = 0;
    bool is_final = false;  // Everything is trained.
    bool is_last = false;   // The run stops with it.
    // The number of lines that it contains, once the ps that counts them has written its shard.
    uint64_t lines = 0;
  };
  // Returns the cut under way, or null.
  const Cut* cut() const { return cut_.has_value() ? &*cut_ : nullptr; }
  bool IsUnderWay(uint64_t name) const { return cut_.has_value() && cut_->name == name; }
  // Notes that a shard of the cut is written; for `reported_steps` see ReportShardRequest.
  void OnShard(uint32_t ps, uint64_t name, uint64_t reported_steps);
  // Returns whether the lines of all updates in the cut under way have been released to
  // metrics.jsonl. For that it releases the newest line, unless an evaluation may still be added to
  // it.
  bool LinesOfCutAreOut(bool stopping);
  // Notes that the manifest of the cut under way is being written: the cut may become durable even
  // if a ps is lost.
  void OnManifestBegun(uint64_t name);
  // Returns whether a manifest is being written. A lost ps may not load before OnCutDurable or
  // OnCutFailed: with an older cut it would count lines again that the newer checkpoint contains,
  // and another death would lose them.
  bool is_writing() const { return being_written_.has_value(); }
  void OnCutDurable(uint64_t name);
  void OnCutFailed(uint64_t name);
  // Return whether the cut with which a finished run (final), or a stopped run (last), ends is
  // durable.
  bool final_cut_is_durable() const { return final_cut_is_durable_; }
  bool last_cut_is_durable() const { return last_cut_is_durable_; }
  // Returns the first epoch that no durable checkpoint contains as a whole.
  uint32_t first_kept_epoch() const { return ledger_.EpochsToAsk().first; }

  AsyncLines& lines() { return lines_; }
  const AsyncLines& lines() const { return lines_; }
  uint32_t reporter() const { return options_.reporter; }  // The ps that counts the lines.

 private:
  struct Ps {
    enum State { kLost, kAsking, kServing };
    State state = kLost;
    std::map<uint32_t, IntervalSet> applied;  // Its answers so far, by epoch.
  };

  bool CutIsDue(bool stopping) const;
  bool IsBeingWritten(uint64_t name) const;

  const Options options_;
  const uint64_t period_;
  DataLedger ledger_;
  AsyncLines lines_;
  std::vector<Ps> ps_;
  std::optional<Cut> cut_;
  // The cut whose manifest is being written: `cut_`, unless a ps was lost meanwhile.
  std::optional<Cut> being_written_;
  std::optional<uint64_t> last_name_;  // The name of the last cut, made or not.
  uint64_t last_cut_updates_ = 0;
  bool cut_is_wanted_ = false;
  bool final_cut_is_durable_ = false;
  bool last_cut_is_durable_ = false;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_SESSION_ASYNC_SESSION_H_
