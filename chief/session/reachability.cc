#include "chief/session/reachability.h"

#include <iterator>

namespace shoal {

bool Reachability::OnReport(absl::Time now, uint32_t worker, const std::set<uint32_t>& silent,
                            bool reaches_all) {
  std::map<uint32_t, absl::Time>& since = silent_since_[worker];
  for (auto it = since.begin(); it != since.end();) {
    it = silent.count(it->first) > 0 ? std::next(it) : since.erase(it);
  }
  for (const uint32_t ps : silent) since.try_emplace(ps, now);
  if (!reaches_all) return false;
  ForgetInRestarts(worker);
  return suspects_.erase(worker) > 0;
}

void Reachability::ForgetWorker(uint32_t worker) {
  silent_since_.erase(worker);
  ForgetInRestarts(worker);
}

void Reachability::ForgetInRestarts(uint32_t worker) {
  for (auto it = restarted_.begin(); it != restarted_.end();) {
    it->second.erase(worker);
    it = it->second.empty() ? restarted_.erase(it) : std::next(it);
  }
}

void Reachability::ForgetPs(uint32_t ps) {
  for (auto& [worker, since] : silent_since_) since.erase(ps);
}

std::vector<Reachability::Verdict> Reachability::Judge(absl::Time now,
                                                       const std::vector<uint32_t>& workers) {
  std::map<uint32_t, std::vector<uint32_t>> silent;  // the workers that do not reach a ps
  std::map<uint32_t, Verdict> due;                   // the first of them, by ps
  for (const uint32_t worker : workers) {
    for (const auto& [ps, since] : Silent(worker)) {
      silent[ps].push_back(worker);
      if (now - since < lease_) continue;
      Verdict& first =
          due.try_emplace(ps, Verdict{false, ps, worker, 0, now - since}).first->second;
      if (now - since > first.silence) first = Verdict{false, ps, worker, 0, now - since};
    }
  }
  std::vector<Verdict> verdicts;
  std::set<uint32_t> judged;
  for (auto& [ps, verdict] : due) {
    const std::vector<uint32_t>& who = silent[ps];
    verdict.others = who.size() - 1;
    verdict.is_about_ps = who.size() * 2 > workers.size();
    const bool was_restarted = restarted_.count(ps) > 0;
    verdict.is_about_ps = verdict.is_about_ps && !was_restarted;
    if (verdict.is_about_ps) {
      restarted_[ps] = std::set<uint32_t>(who.begin(), who.end());
      verdicts.push_back(verdict);
    }
    if (verdict.is_about_ps || who.size() == workers.size()) continue;
    for (const uint32_t worker : who) {
      const absl::Duration silence = now - Silent(worker).at(ps);
      if (silence < lease_ || !judged.insert(worker).second) continue;
      suspects_.insert(worker);
      verdicts.push_back(Verdict{false, ps, worker, verdict.others, silence});
    }
  }
  for (const uint32_t worker : judged) ForgetWorker(worker);
  return verdicts;
}

const std::map<uint32_t, absl::Time>& Reachability::Silent(uint32_t worker) const {
  static const auto* const kNone = new std::map<uint32_t, absl::Time>();
  const auto it = silent_since_.find(worker);
  return it == silent_since_.end() ? *kNone : it->second;
}

}  // namespace shoal
