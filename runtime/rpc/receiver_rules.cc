#include "runtime/rpc/receiver_rules.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/identity.pb.h"

namespace shoal {

ReceiverRules::ReceiverRules(std::string run_id, uint64_t term, uint64_t incarnation)
    : run_id_(std::move(run_id)), incarnation_(incarnation), term_(term) {}

absl::Status ReceiverRules::CheckCommand(const v1::Identity& sender) {
  RETURN_IF_ERROR(CheckIsChief(sender));
  term_ = std::max(term_, sender.term());
  return absl::OkStatus();
}

absl::Status ReceiverRules::CheckCommandAndLineage(const v1::Identity& sender) {
  RETURN_IF_ERROR(CheckIsChief(sender));
  if (sender.lineage() != lineage_) return Moved(sender, incarnation_);
  term_ = std::max(term_, sender.term());
  return absl::OkStatus();
}

absl::Status ReceiverRules::CheckExchange(const v1::Identity& sender) const {
  RETURN_IF_ERROR(CheckMember(sender));
  const v1::Member& member = sender.member();
  if (member.job() != v1::JOB_WORKER) {
    return absl::PermissionDeniedError("identity.member: only workers exchange with a ps");
  }
  if (sender.term() > term_) {
    return absl::UnavailableError(absl::StrCat("term ", sender.term(),
                                               " is not known here yet: the chief that commands "
                                               "this ps is of term ",
                                               term_));
  }
  const auto known = workers_.find(member.index());
  const uint64_t newest = known == workers_.end() ? 0 : known->second;
  if (sender.incarnation() > newest) {
    return absl::UnavailableError(
        absl::StrCat("incarnation ", sender.incarnation(), " of worker/", member.index(),
                     " is not known here yet: the chief has not announced it to this ps"));
  }
  if (sender.incarnation() < newest) {
    return absl::AbortedError(
        absl::StrCat("fenced incarnation: ", sender.incarnation(), " was replaced by ", newest));
  }
  return absl::OkStatus();
}

absl::Status ReceiverRules::CheckExchangeAndLineage(const v1::Identity& sender,
                                                    uint64_t receiver_incarnation) const {
  RETURN_IF_ERROR(CheckExchange(sender));
  if (receiver_incarnation != incarnation_ || sender.lineage() != lineage_) {
    return Moved(sender, receiver_incarnation);
  }
  return absl::OkStatus();
}

void ReceiverRules::LearnWorkers(const std::map<uint32_t, uint64_t>& incarnations) {
  for (const auto& [index, incarnation] : incarnations) {
    uint64_t& known = workers_[index];
    known = std::max(known, incarnation);
  }
}

absl::Status ReceiverRules::CheckIsChief(const v1::Identity& sender) const {
  RETURN_IF_ERROR(CheckMember(sender));
  if (sender.member().job() == v1::JOB_CHIEF) return absl::OkStatus();
  return absl::PermissionDeniedError("identity.member: only the chief commands a ps");
}

absl::Status ReceiverRules::CheckMember(const v1::Identity& sender) const {
  const v1::Member& member = sender.member();
  if (member.job() == v1::JOB_UNSPECIFIED || !v1::Job_IsValid(member.job()) ||
      member.index() >= kMaxMemberIndex) {
    return absl::InvalidArgumentError(
        absl::StrCat("identity.member: no task has job ", member.job(), " index ", member.index()));
  }
  if (sender.run_id() != run_id_) {
    return absl::UnavailableError(absl::StrCat("identity.run_id: this task belongs to run ",
                                               run_id_, ", not to ", sender.run_id()));
  }
  if (sender.term() < term_) {
    return absl::AbortedError(
        absl::StrCat("fenced term: ", sender.term(), " was replaced by ", term_));
  }
  return absl::OkStatus();
}

absl::Status ReceiverRules::Moved(const v1::Identity& sender, uint64_t receiver_incarnation) const {
  return absl::AbortedError(absl::StrCat("moved: this is incarnation ", incarnation_, " lineage ",
                                         lineage_, ", the message is for ", receiver_incarnation,
                                         " lineage ", sender.lineage()));
}

}  // namespace shoal
