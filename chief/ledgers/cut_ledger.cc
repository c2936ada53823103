#include "chief/ledgers/cut_ledger.h"

#include <algorithm>

namespace shoal {
namespace {

// The farthest that a cut on request is placed ahead of the most advanced slice.
constexpr uint64_t kMostStepsAhead = 1024;

}  // namespace

void CutLedger::SetParts(const std::vector<Part>& parts) { parts_ = parts; }

std::vector<uint32_t> CutLedger::PsWithSlices() const {
  std::vector<uint32_t> owners;
  for (uint32_t ps = 0; ps < num_ps_; ++ps) {
    if (parts_[ps].has_slices) owners.push_back(ps);
  }
  return owners;
}

bool CutLedger::Cut::IsComplete(const std::vector<Part>& parts) const {
  for (uint32_t ps = 0; ps < parts.size(); ++ps) {
    if (parts[ps].has_slices && shards.count(ps) == 0) return false;
  }
  return true;
}

std::vector<CutLedger::Reminder> CutLedger::Reminders() const {
  std::vector<Reminder> reminders;
  for (uint32_t ps = 0; ps < num_ps_; ++ps) {
    if (!parts_[ps].has_slices || parts_[ps].has_versions) continue;
    for (const auto& [version, cut] : cuts_) {
      if (cut.shards.count(ps) == 0) reminders.push_back({ps, version});
    }
  }
  return reminders;
}

void CutLedger::AddShard(uint32_t ps, uint64_t version, const std::string& directory,
                         const v1::ShardFile& file) {
  if (version < durable_version_ || (version == durable_version_ && !durable_directory_.empty()))
    return;
  if (failed_.count(version) > 0) return;
  Cut& cut = cuts_[version];
  if (cut.directory != directory) cut.shards.clear();
  cut.directory = directory;
  cut.shards.try_emplace(ps, file);
}

std::vector<uint32_t> CutLedger::WithoutShard(uint64_t version) const {
  std::vector<uint32_t> missing;
  if (version == durable_version_ && !durable_directory_.empty()) return missing;
  const auto cut = cuts_.find(version);
  for (uint32_t ps = 0; ps < num_ps_; ++ps) {
    if (!parts_[ps].has_slices) continue;
    if (cut == cuts_.end() || cut->second.shards.count(ps) == 0) missing.push_back(ps);
  }
  return missing;
}

void CutLedger::Fail(uint64_t version) {
  cuts_.erase(version);
  failed_.insert(version);
  if (requested_.has_value() && requested_->version == version) requested_.reset();
}

std::optional<CutLedger::Complete> CutLedger::TakeComplete(uint64_t newest) {
  for (auto& [version, cut] : cuts_) {
    if (version > newest || cut.taken || !cut.IsComplete(parts_)) continue;
    cut.taken = true;
    Complete complete{version, cut.directory, {}};
    for (const auto& [ps, file] : cut.shards) complete.shards.push_back(file);
    return complete;
  }
  return std::nullopt;
}

std::vector<std::pair<uint64_t, std::string>> CutLedger::Superseded(uint64_t newest) const {
  std::vector<std::pair<uint64_t, std::string>> complete;
  for (const auto& [version, cut] : cuts_) {
    if (version > newest || cut.taken || !cut.IsComplete(parts_)) continue;
    complete.emplace_back(version, cut.directory);
  }
  if (!complete.empty()) complete.pop_back();
  return complete;
}

uint64_t CutLedger::newest_taken() const {
  uint64_t newest = durable_version_;
  for (const auto& [version, cut] : cuts_) {
    if (cut.taken) newest = std::max(newest, version);
  }
  return newest;
}

bool CutLedger::has_complete() const {
  return std::any_of(cuts_.begin(), cuts_.end(), [this](const auto& cut) {
    return !cut.second.taken && cut.second.IsComplete(parts_);
  });
}

void CutLedger::OnDurable(uint64_t version) {
  auto it = cuts_.find(version);
  if (it == cuts_.end() || version < durable_version_) return;
  Restore(version, it->second.directory);
  cuts_.erase(cuts_.begin(), cuts_.upper_bound(version));
}

void CutLedger::Restore(uint64_t version, const std::string& directory) {
  durable_version_ = version;
  durable_directory_ = directory;
  failed_.erase(failed_.begin(), failed_.upper_bound(version));
}

void CutLedger::Request(uint64_t version) {
  if (!requested_.has_value()) requested_ = Requested{version};
}

void CutLedger::RequestReached(uint64_t newest_step) {
  const uint64_t newest = std::max(newest_step, newest_answered_);
  if (requested_.has_value() && requested_->version <= newest) return;
  requested_.reset();
  if (failed_.count(newest) == 0) requested_ = Requested{newest};
}

bool CutLedger::SomePsWaits() const {
  if (!requested_.has_value()) return false;
  const auto cut = cuts_.find(requested_->version);
  return std::any_of(requested_->waiting.begin(), requested_->waiting.end(), [&](uint32_t ps) {
    return cut == cuts_.end() || cut->second.shards.count(ps) == 0;
  });
}

std::vector<uint32_t> CutLedger::PsToAsk() const {
  std::vector<uint32_t> ask;
  if (!requested_.has_value()) return ask;
  for (uint32_t ps = 0; ps < num_ps_; ++ps) {
    if (requested_->acknowledged.count(ps) == 0) ask.push_back(ps);
  }
  return ask;
}

void CutLedger::OnAnswer(uint32_t ps, uint64_t version, const Answer& answer) {
  newest_answered_ = std::max(newest_answered_, answer.newest_version);
  if (!requested_.has_value() || requested_->version != version) return;
  if (!answer.passed) {
    requested_->acknowledged.insert(ps);
    if (answer.waits) requested_->waiting.insert(ps);
    return;
  }
  // Steps may be quicker than a question and its answer: farther ahead from time to time.
  const uint64_t ahead = std::min(2 * requested_->steps_ahead, kMostStepsAhead);
  requested_ = Requested{std::max(version, answer.newest_version) + requested_->steps_ahead};
  requested_->steps_ahead = ahead;
}

void CutLedger::OnRollback() {
  cuts_.clear();
  failed_.clear();
  requested_.reset();
  newest_answered_ = 0;
}

}  // namespace shoal
