#include "chief/ledgers/bad_batch_decisions.h"

#include <utility>

namespace shoal {
namespace {

// The number of incarnations after whose failures a batch that only some slices have will not be
// delivered to the others.
constexpr size_t kFailuresBeforeRollback = 4;

// The number of batches whose failures are remembered. If more batches fail, the earliest are
// forgotten, because the run has most likely passed them.
constexpr size_t kMostFailing = 4096;

}  // namespace

void BadBatchDecisions::Report(const BatchKey& batch, uint64_t incarnation, bool certain,
                               const std::string& reason) {
  if (skipped_.count(batch) > 0 || delivered_.count(batch) > 0) return;
  if (failures_.size() >= kMostFailing && failures_.count(batch) == 0) {
    failures_.erase(failures_.begin());
  }
  Failures& failures = failures_[batch];
  // More than what makes a batch hopeless says no more.
  const bool is_new = failures.incarnations.size() <= kFailuresBeforeRollback &&
                      failures.incarnations.insert(incarnation).second;
  failures.reason = reason;
  if (!certain && failures.incarnations.size() < 2) return;
  auto [it, added] = pending_.try_emplace(batch);
  Pending& pending = it->second;
  if (added) {
    pending.number = ++last_number_;
    pending.certain = certain;
  } else if (!pending.decided) {
    pending.certain |= certain;
  } else {
    // It failed again after "compute it again": asked anew once every ps knows this decision.
    pending.asks_again |= certain || is_new;
    pending.certain_again |= certain;
  }
}

void BadBatchDecisions::Announce(const BatchKey& batch) {
  Pending& pending = pending_[batch];
  pending.number = ++last_number_;
  pending.decided = pending.skip = true;
}

std::vector<BadBatchDecisions::Message> BadBatchDecisions::Unanswered() const {
  std::vector<Message> messages;
  for (const auto& [batch, pending] : pending_) {
    for (uint32_t ps = 0; ps < num_ps_; ++ps) {
      const bool answered =
          pending.decided ? pending.acknowledged.count(ps) > 0 : pending.answers.count(ps) > 0;
      if (!answered) messages.push_back({ps, batch, pending.number, pending.decided, pending.skip});
    }
  }
  return messages;
}

void BadBatchDecisions::OnWithheld(uint32_t ps, const BatchKey& batch, uint64_t number,
                                   bool all_have, bool none_has) {
  auto it = pending_.find(batch);
  if (it == pending_.end() || it->second.number != number || it->second.decided) return;
  it->second.answers[ps] = {all_have, none_has};
}

void BadBatchDecisions::OnDecisionAcknowledged(uint32_t ps, const BatchKey& batch,
                                               uint64_t number) {
  auto it = pending_.find(batch);
  if (it == pending_.end() || it->second.number != number || !it->second.decided) return;
  it->second.acknowledged.insert(ps);
  if (it->second.acknowledged.size() < num_ps_) return;
  const Pending done = std::move(it->second);
  pending_.erase(it);
  if (!done.asks_again || delivered_.count(batch) > 0) return;
  Pending& again = pending_[batch];
  again.number = ++last_number_;
  again.certain = done.certain_again;
}

bool BadBatchDecisions::Decide() {
  for (auto& [batch, pending] : pending_) {
    if (pending.decided || pending.answers.size() < num_ps_) continue;
    bool anyone = false, everyone = true;
    for (const auto& [ps, answer] : pending.answers) {
      everyone = everyone && answer.first;
      anyone = anyone || !answer.second;
    }
    const Failures failures = failures_[batch];
    const bool hopeless =
        pending.certain || failures.incarnations.size() >= kFailuresBeforeRollback;
    if (anyone && !everyone && hopeless) {
      skipped_[batch] = failures.reason;
      failures_.erase(batch);
      ++changes_;
      return true;
    }
    pending.decided = true;
    pending.skip = !anyone;
    if (everyone) delivered_.insert(batch);
    if (pending.skip) {
      skipped_[batch] = failures.reason;
      failures_.erase(batch);
    }
    ++changes_;
  }
  return false;
}

void BadBatchDecisions::OnRollback() {
  pending_.clear();
  delivered_.clear();
  ++changes_;
}

uint64_t MostSkippedInARow(const std::map<BatchKey, std::string>& skipped) {
  uint64_t most = 0, row = 0;
  BatchKey last;
  for (const auto& [batch, reason] : skipped) {
    row = row > 0 && ((batch.epoch == last.epoch && batch.index == last.index + 1) ||
                      (batch.epoch == last.epoch + 1 && batch.index == 0))
              ? row + 1
              : 1;
    most = row > most ? row : most;
    last = batch;
  }
  return most;
}

void BadBatchDecisions::ForgetSkipsFrom(uint32_t epoch) {
  skipped_.erase(skipped_.lower_bound(BatchKey{epoch, 0}), skipped_.end());
  ++changes_;
}

void BadBatchDecisions::RestoreSkips(absl::Span<const BatchKey> skipped) {
  for (const BatchKey& batch : skipped)
    skipped_.try_emplace(batch, "skipped before the checkpoint");
  ++changes_;
}

}  // namespace shoal
