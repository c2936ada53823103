#include "chief/ledgers/issued_incarnations.h"

#include "absl/strings/str_format.h"

#include "base/status_macros.h"

namespace shoal {

void IssuedIncarnations::Issue(TaskId task, uint64_t incarnation) {
  if (Find(task, incarnation) != nullptr) return;
  std::deque<Issued>& issued = issued_[task];
  issued.push_back({incarnation, std::nullopt});
  if (issued.size() > kKept) issued.pop_front();
}

absl::Status IssuedIncarnations::Check(TaskId task, uint64_t incarnation) {
  if (Find(task, incarnation) != nullptr) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrFormat(
      "identity.incarnation: this chief did not issue incarnation %d to %s, or has forgotten it",
      incarnation, task.ToString()));
}

absl::Status IssuedIncarnations::RecordDeath(TaskId task, uint64_t incarnation,
                                             const BatchKey& batch) {
  RETURN_IF_ERROR(Check(task, incarnation));
  std::optional<BatchKey>& died_of = Find(task, incarnation)->died_of;
  if (!died_of.has_value()) died_of = batch;
  if (*died_of == batch) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrFormat("died: incarnation %d of %s has died of %s already", incarnation,
                      task.ToString(), ToString(*died_of)));
}

IssuedIncarnations::Issued* IssuedIncarnations::Find(TaskId task, uint64_t incarnation) {
  const auto issued = issued_.find(task);
  if (issued == issued_.end()) return nullptr;
  for (Issued& one : issued->second) {
    if (one.incarnation == incarnation) return &one;
  }
  return nullptr;
}

}  // namespace shoal
