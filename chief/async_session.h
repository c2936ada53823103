#ifndef SHOAL_CHIEF_ASYNC_SESSION_H_
#define SHOAL_CHIEF_ASYNC_SESSION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

#include "base/interval_set.h"
#include "chief/async_lines.h"
#include "chief/data_ledger.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "runtime/plan/step_plan.h"

namespace shoal {

// What a TrainingSession does differently in ASYNC: who computes which batch (DataLedger), how a ps
// comes back while the others train on, when a cut is made and what it stands for, and the lines of
// steps.
//
//   a ps:  lost --loaded--> asked which batches it has --all answered--> serving
//            ^                                                             |
//            +-------------------- its lease ended, or it came back -------+
//   what it lacks is issued again, for it alone.
//
//   a cut: every `save_every` updates, on request, and when all is done; one at a time, and only
//   while all ps serve. Its name is the number of updates, or one above the last name. The ledger
//   is written down when the cut is asked for: what the shards have beyond it are duplicates later.
//   A ps that is lost ends the cut under way, unless its manifest is being written already: what
//   it says is complete, and a run whose final cut it is ends with it; the ps is loaded afterwards.
//   A cut becomes a checkpoint when the lines of all that it contains are written: the ps that
//   counts them may die any time.
//
// Single-threaded, no clock. Repeated and late messages change nothing.
class AsyncSession {
 public:
  struct Options {
    DataLedger::Options ledger;
    uint32_t num_ps = 1;
    uint32_t reporter = 0;                // the ps with the report slice
    uint64_t save_every = 0;              // updates; 0: once an epoch
    std::optional<uint64_t> resumed_cut;  // the name of the cut that the run goes on from
  };

  // All ps are lost in the beginning.
  AsyncSession(const Options& options, const StepPlan& plan);

  // From a manifest, before anything else. Errors are DataLedger::Restore's.
  absl::Status Restore(absl::string_view ledger) { return ledger_.Restore(ledger); }

  // --- Workers.
  // `may_lease`: false while the run is not training.
  v1::LeaseBatchesResponse LeaseBatches(const v1::LeaseBatchesRequest& request, bool may_lease);
  void OnWorkerLost(uint32_t worker, uint64_t incarnation) {
    ledger_.OnWorkerLost(worker, incarnation);
  }
  DataLedger& ledger() { return ledger_; }
  const DataLedger& ledger() const { return ledger_; }

  // --- Parameter servers.
  void OnPsLost(uint32_t ps);
  void OnLoaded(uint32_t ps, uint64_t incarnation, const v1::LoadSlicesResponse& response);
  // Epochs to ask the ps about with GetApplied; empty if it is not loaded, or serves.
  std::vector<uint32_t> EpochsToAsk(uint32_t ps) const;
  // An answer. True: it was the last one that was missing; call Serve.
  bool AddApplied(uint32_t ps, uint32_t epoch, const v1::GetAppliedResponse& response);
  // The ps serves; `view` is the first one in which all workers know it. Errors are
  // DataLedger::OnPsReturned's.
  absl::Status Serve(uint32_t ps, uint64_t view);
  bool all_serve() const;

  // --- Cuts.
  // A cut as soon as may be.
  void WantCut() { cut_is_wanted_ = true; }
  // Begins a cut if one is due: its name. `stopping`: the run ends with it.
  std::optional<uint64_t> BeginCut(bool stopping);
  // The name that the next cut gets if nothing happens before.
  uint64_t NextCutName() const;
  struct Cut {
    uint64_t name = 0;
    std::string ledger;             // as it was when the cut was asked for
    uint32_t first_open_epoch = 0;  // epochs before are in the cut as a whole
    uint64_t updates = 0;
    bool is_final = false;  // all is done
    bool is_last = false;   // it is the one that the run stops with
    uint64_t lines = 0;     // that it contains, once the ps that counts them has written its shard
  };
  // Null: none is under way.
  const Cut* cut() const { return cut_.has_value() ? &*cut_ : nullptr; }
  bool IsUnderWay(uint64_t name) const { return cut_.has_value() && cut_->name == name; }
  // A shard of it is written; `reported_steps` as in ReportShardRequest.
  void OnShard(uint32_t ps, uint64_t name, uint64_t reported_steps);
  // Whether the lines of all that the cut under way contains were let go. The newest of them is let
  // go for it, unless an evaluation may still go into it.
  bool LinesOfCutAreOut(bool stopping);
  // The manifest of the cut under way is being written: from here on the cut may become durable,
  // whatever happens to a ps.
  void OnManifestBegun(uint64_t name);
  // Until OnCutDurable or OnCutFailed no lost ps may be loaded: from an older cut it would count
  // lines again that the newer checkpoint relies on, and the run lack them if somebody dies then.
  bool is_writing() const { return being_written_.has_value(); }
  void OnCutDurable(uint64_t name);
  void OnCutFailed(uint64_t name);
  // The cut that a finished, or a stopped, run ends with is durable.
  bool final_cut_is_durable() const { return final_cut_is_durable_; }
  bool last_cut_is_durable() const { return last_cut_is_durable_; }
  // The first epoch that no durable checkpoint contains as a whole.
  uint32_t first_kept_epoch() const { return ledger_.EpochsToAsk().first; }

  AsyncLines& lines() { return lines_; }
  uint32_t reporter() const { return options_.reporter; }  // the ps that counts them

 private:
  struct Ps {
    enum State { kLost, kAsking, kServing };
    State state = kLost;
    std::map<uint32_t, IntervalSet> applied;  // kAsking: what it has answered
  };

  bool CutIsDue(bool stopping) const;
  bool IsBeingWritten(uint64_t name) const;

  const Options options_;
  const uint64_t period_;
  DataLedger ledger_;
  AsyncLines lines_;
  std::vector<Ps> ps_;
  std::optional<Cut> cut_;
  std::optional<Cut> being_written_;   // its manifest; `cut_`, unless a ps was lost meanwhile
  std::optional<uint64_t> last_name_;  // of any cut, made or not
  uint64_t last_cut_updates_ = 0;
  bool cut_is_wanted_ = false;
  bool final_cut_is_durable_ = false;
  bool last_cut_is_durable_ = false;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_ASYNC_SESSION_H_
