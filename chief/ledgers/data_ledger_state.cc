// Writes the state of the ledger to a checkpoint's manifest and restores it.

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "chief/ledgers/data_ledger.h"
#include "proto/v1/checkpoint.pb.h"

namespace shoal {
namespace {

absl::Status Damaged(absl::string_view what) {
  return absl::DataLossError(absl::StrCat("the ledger in the checkpoint's manifest is damaged: ",
                                          what, "; resume from another checkpoint"));
}

absl::StatusOr<IntervalSet> ReadFinished(const v1::DataLedgerState::Epoch& epoch,
                                         uint64_t batches) {
  if (epoch.finished_begin_size() != epoch.finished_end_size()) return Damaged("half a range");
  std::vector<IntervalSet::Range> ranges;
  for (int i = 0; i < epoch.finished_begin_size(); ++i) {
    ranges.push_back({epoch.finished_begin(i), epoch.finished_end(i)});
  }
  absl::StatusOr<IntervalSet> set = IntervalSet::FromRanges(ranges);
  if (!set.ok()) return Damaged(set.status().message());
  if (!set->empty() && set->ranges().back().end > batches) return Damaged("no such batch");
  return set;
}

}  // namespace

std::string DataLedger::Serialize() const {
  v1::DataLedgerState state;
  state.set_updates(updates_);
  *state.mutable_next() = ToProto(next_);
  state.set_last_evaluated(last_evaluated_);
  state.set_batches_per_epoch(plan_.batches_per_epoch());
  for (const auto& [number, epoch] : epochs_) {
    v1::DataLedgerState::Epoch* out = state.add_epochs();
    out->set_epoch(number);
    for (const IntervalSet::Range& range : epoch.finished.ranges()) {
      out->add_finished_begin(range.begin);
      out->add_finished_end(range.end);
    }
  }
  for (const auto& [batch, reason] : skipped_) {
    v1::SkippedBatch* out = state.add_skipped();
    *out->mutable_batch() = ToProto(batch);
    out->set_reason(reason);
  }
  return state.SerializeAsString();
}

absl::Status DataLedger::Restore(absl::string_view bytes) {
  v1::DataLedgerState state;
  if (!state.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
    return Damaged("not a ledger");
  }
  const uint64_t batches = state.batches_per_epoch();
  const BatchKey next = ToBatchKey(state.next());
  if (next.index >= batches || state.epochs_size() == 0)
    return Damaged("no position to resume from");
  const uint64_t first = state.epochs(0).epoch();
  if (first + state.epochs_size() != uint64_t{next.epoch} + 1) return Damaged("epochs are missing");
  std::map<uint32_t, Epoch> epochs;
  for (int i = 0; i < state.epochs_size(); ++i) {
    if (state.epochs(i).epoch() != first + i) return Damaged("epochs are not in order");
    ASSIGN_OR_RETURN(epochs[first + i].finished, ReadFinished(state.epochs(i), batches));
  }
  std::map<BatchKey, std::string> skipped;
  for (const v1::SkippedBatch& skip : state.skipped()) {
    const BatchKey batch = ToBatchKey(skip.batch());
    skipped[batch] = skip.reason();
    const auto epoch = epochs.find(batch.epoch);
    if (epoch == epochs.end()) continue;
    if (batch.index >= batches) return Damaged("no such batch");
    epoch->second.skipped.Insert(batch.index);
    epoch->second.finished.Remove(batch.index);
  }
  RETURN_IF_ERROR(CheckPlanFits(epochs, next, batches));

  updates_ = state.updates();
  last_evaluated_ = state.last_evaluated();
  next_ = next;
  epochs_ = std::move(epochs);
  skipped_ = std::move(skipped);
  QueueUnfinished();
  PassSkipped();
  done_ = false;
  SetPauses();
  Advance();
  return absl::OkStatus();
}

// The number of batches per epoch may change at the start of an epoch, if no earlier batch is open.
absl::Status DataLedger::CheckPlanFits(const std::map<uint32_t, Epoch>& epochs,
                                       const BatchKey& next, uint64_t batches) const {
  for (const auto& [number, epoch] : epochs) {
    const bool is_new = number == next.epoch && next.index == 0;
    const bool is_through = epoch.finished.Count() + epoch.skipped.Count() == batches;
    const bool fits = batches == plan_.batches_per_epoch() && number >= plan_.options().base_epoch;
    if (!fits && !is_new && !is_through) {
      return absl::FailedPreconditionError(absl::StrCat(
          "the checkpoint is in the middle of epoch ", uint64_t{number} + 1, " of ", batches,
          " batches, but batch_size and num_clones now make ", plan_.batches_per_epoch(),
          ": resume with the previous values; they may change only at the start of an epoch"));
    }
  }
  return absl::OkStatus();
}

// Everything before `next_` that is neither finished nor skipped was leased when the state was
// written.
void DataLedger::QueueUnfinished() {
  for (const auto& [number, epoch] : epochs_) {
    if (number < plan_.options().base_epoch) continue;
    const uint64_t end = number == next_.epoch ? next_.index : plan_.batches_per_epoch();
    const IntervalSet unfinished = epoch.finished.Missing(0, end);
    for (const IntervalSet::Range& range : unfinished.ranges()) {
      for (uint64_t i = range.begin; i < range.end; ++i) {
        if (epoch.skipped.Contains(i)) continue;
        open_[{number, i}];
        queue_.insert({number, i});
        ++num_pending_;
      }
    }
  }
}

}  // namespace shoal
