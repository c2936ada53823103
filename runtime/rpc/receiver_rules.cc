#include "runtime/rpc/receiver_rules.h"

#include <algorithm>

#include "absl/strings/str_cat.h"

#include "proto/v1/identity.pb.h"

namespace shoal {

ReceiverRules::ReceiverRules(std::string run_id, uint64_t term, uint64_t incarnation)
    : run_id_(std::move(run_id)), incarnation_(incarnation), term_(term) {}

absl::Status ReceiverRules::CheckSender(const v1::Identity& sender) {
  const absl::Status status = Check(sender);
  if (status.ok()) Remember(sender);
  return status;
}

absl::Status ReceiverRules::CheckSenderAndLineage(const v1::Identity& sender,
                                                  uint64_t receiver_incarnation) {
  absl::Status status = Check(sender);
  if (!status.ok()) return status;
  if (receiver_incarnation != incarnation_ || sender.lineage() != lineage_) {
    return absl::AbortedError(absl::StrCat("moved: this is incarnation ", incarnation_, " lineage ",
                                           lineage_, ", the message is for ", receiver_incarnation,
                                           " lineage ", sender.lineage()));
  }
  Remember(sender);
  return absl::OkStatus();
}

absl::Status ReceiverRules::Check(const v1::Identity& sender) const {
  const v1::Member& member = sender.member();
  if (member.job() == v1::JOB_UNSPECIFIED || !v1::Job_IsValid(member.job()) ||
      member.index() >= kMaxMemberIndex) {
    return absl::InvalidArgumentError(
        absl::StrCat("identity.member: no task has job ", member.job(), " index ", member.index()));
  }
  if (sender.run_id() != run_id_) {
    return absl::FailedPreconditionError(
        absl::StrCat("identity.run_id: this task belongs to run ", run_id_));
  }
  if (sender.term() < term_) {
    return absl::AbortedError(
        absl::StrCat("fenced term: ", sender.term(), " is over, now is ", term_));
  }
  const auto known = incarnations_.find({member.job(), member.index()});
  if (known != incarnations_.end() && sender.incarnation() < known->second) {
    return absl::AbortedError(absl::StrCat("fenced incarnation: ", sender.incarnation(),
                                           " was replaced by ", known->second));
  }
  return absl::OkStatus();
}

void ReceiverRules::Remember(const v1::Identity& sender) {
  term_ = std::max(term_, sender.term());
  uint64_t& known = incarnations_[{sender.member().job(), sender.member().index()}];
  known = std::max(known, sender.incarnation());
}

}  // namespace shoal
