#include "chief/ledgers/export_ledger.h"

namespace shoal {

void ExportLedger::OnShard(uint64_t version, bool must_have_one) {
  const auto [it, is_new] = exports_.try_emplace(version);
  if (!is_new) return;
  ++num_cuts_;
  it->second.wanted = must_have_one || (every_ > 0 && num_cuts_ % every_ == 0);
}

bool ExportLedger::IsWanted(uint64_t version) const {
  const auto it = exports_.find(version);
  return it != exports_.end() && it->second.wanted;
}

void ExportLedger::AddPart(uint32_t ps, uint64_t version) {
  const auto it = exports_.find(version);
  if (it != exports_.end()) it->second.parts.insert(ps);
}

void ExportLedger::Fail(uint64_t version) {
  const auto it = exports_.find(version);
  if (it != exports_.end()) it->second.wanted = false;
}

void ExportLedger::OnPsLost(uint32_t ps) {
  for (auto& [version, made] : exports_) {
    if (made.parts.count(ps) == 0) made.wanted = false;
  }
}

std::vector<uint32_t> ExportLedger::Missing(uint64_t version,
                                            const std::vector<uint32_t>& ps) const {
  std::vector<uint32_t> missing;
  const auto it = exports_.find(version);
  for (const uint32_t index : ps) {
    if (it == exports_.end() || it->second.parts.count(index) == 0) missing.push_back(index);
  }
  return missing;
}

}  // namespace shoal
