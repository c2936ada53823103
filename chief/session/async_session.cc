#include "chief/session/async_session.h"

#include <algorithm>
#include <utility>

namespace shoal {

AsyncSession::AsyncSession(const Options& options, const StepPlan& plan)
    : options_(options),
      period_(options.save_every > 0 ? options.save_every : plan.batches_per_epoch()),
      ledger_(options.ledger, plan),
      ps_(options.num_ps),
      last_name_(options.resumed_cut),
      last_cut_updates_(options.resumed_cut.value_or(0)) {
  for (uint32_t ps = 0; ps < options.num_ps; ++ps) ledger_.OnPsLost(ps);
}

void AsyncSession::OnPsLost(uint32_t ps) {
  ledger_.OnPsLost(ps);
  ps_[ps] = Ps();
  if (cut_.has_value()) cut_is_wanted_ = true;
  cut_.reset();
  final_cut_is_durable_ = last_cut_is_durable_ = false;
}

void AsyncSession::OnLoaded(uint32_t ps, uint64_t incarnation,
                            const v1::LoadSlicesResponse& response) {
  if (ps_[ps].state != Ps::kLost) return;
  ps_[ps].state = Ps::kAsking;
  if (ps == options_.reporter) lines_.Restart(incarnation, response.reported_steps());
}

std::vector<uint32_t> AsyncSession::EpochsToAsk(uint32_t ps) const {
  std::vector<uint32_t> epochs;
  if (ps_[ps].state != Ps::kAsking) return epochs;
  const auto [first, last] = ledger_.EpochsToAsk();
  for (uint32_t epoch = first; epoch <= last; ++epoch) {
    if (ps_[ps].applied.count(epoch) == 0) epochs.push_back(epoch);
  }
  return epochs;
}

bool AsyncSession::AddApplied(uint32_t ps, uint32_t epoch, const v1::GetAppliedResponse& response) {
  Ps& known = ps_[ps];
  if (known.state != Ps::kAsking) return false;
  std::vector<IntervalSet::Range> ranges;
  for (int i = 0; i < std::min(response.begin_size(), response.end_size()); ++i) {
    ranges.push_back({response.begin(i), response.end(i)});
  }
  absl::StatusOr<IntervalSet> applied = IntervalSet::FromRanges(ranges);
  if (!applied.ok()) return false;  // damaged: asked again
  known.applied[epoch] = *std::move(applied);
  return EpochsToAsk(ps).empty();
}

absl::Status AsyncSession::Serve(uint32_t ps, uint64_t view) {
  std::vector<EpochBatches> applied;
  for (auto& [epoch, batches] : ps_[ps].applied) applied.push_back({epoch, std::move(batches)});
  ps_[ps].applied.clear();
  ps_[ps].state = Ps::kServing;
  return ledger_.OnPsReturned(ps, applied, view);
}

bool AsyncSession::all_serve() const {
  return std::all_of(ps_.begin(), ps_.end(), [](const Ps& ps) { return ps.state == Ps::kServing; });
}

bool AsyncSession::CutIsDue(bool stopping) const {
  if (cut_.has_value() || !all_serve()) return false;
  if (ledger_.is_done()) return !final_cut_is_durable_;
  if (stopping) return !last_cut_is_durable_;
  // The final cut is near, and should have the number of all updates as its name.
  if (ledger_.is_at_end()) return false;
  return cut_is_wanted_ || ledger_.updates() / period_ > last_cut_updates_ / period_;
}

uint64_t AsyncSession::NextCutName() const {
  const uint64_t least = last_name_.has_value() ? *last_name_ + 1 : 0;
  return std::max(ledger_.updates(), least);
}

std::optional<uint64_t> AsyncSession::BeginCut(bool stopping) {
  if (!CutIsDue(stopping)) return std::nullopt;
  Cut cut;
  cut.name = NextCutName();
  cut.ledger = ledger_.Serialize();
  cut.first_open_epoch = ledger_.FirstOpenEpoch();
  cut.updates = ledger_.updates();
  cut.is_final = ledger_.is_done();
  cut.is_last = stopping;
  last_name_ = cut.name;
  cut_is_wanted_ = false;
  cut_ = std::move(cut);
  return cut_->name;
}

void AsyncSession::OnShard(uint32_t ps, uint64_t name, uint64_t reported_steps) {
  if (ps == options_.reporter && IsUnderWay(name)) cut_->lines = reported_steps;
}

bool AsyncSession::LinesOfCutAreOut(bool stopping) {
  if (!cut_.has_value()) return true;
  // A stopped run evaluates no more.
  if (!ledger_.is_evaluating() || stopping) lines_.Release(cut_->lines);
  return lines_.released() >= cut_->lines;
}

void AsyncSession::OnManifestBegun(uint64_t name) {
  if (IsUnderWay(name)) being_written_ = *cut_;
}

bool AsyncSession::IsBeingWritten(uint64_t name) const {
  return being_written_.has_value() && being_written_->name == name;
}

void AsyncSession::OnCutDurable(uint64_t name) {
  if (!IsBeingWritten(name)) return;
  const Cut cut = *std::exchange(being_written_, std::nullopt);
  last_cut_updates_ = cut.updates;
  final_cut_is_durable_ = cut.is_final;
  last_cut_is_durable_ = cut.is_last;
  ledger_.ForgetEpochsBefore(cut.first_open_epoch);
  if (IsUnderWay(name)) cut_.reset();
}

void AsyncSession::OnCutFailed(uint64_t name) {
  if (IsBeingWritten(name)) being_written_.reset();
  if (!IsUnderWay(name)) return;
  last_cut_updates_ = cut_->updates;  // the next one when it is due
  cut_.reset();
}

}  // namespace shoal
