// The receiver rules of proto/v1/identity.proto, in their one place: who may still speak, and about
// which variables.
#ifndef SHOAL_RUNTIME_RPC_RECEIVER_RULES_H_
#define SHOAL_RUNTIME_RPC_RECEIVER_RULES_H_

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "absl/status/status.h"

namespace shoal {
namespace v1 {
class Identity;
}

// No task has this index or a higher one: what is remembered of each is bounded.
inline constexpr uint32_t kMaxMemberIndex = 1 << 16;

// What the receiver knows: its run, the highest term and incarnations it has seen, its own
// incarnation and lineage. A refused message changes none of it. Not thread-safe.
class ReceiverRules {
 public:
  // `incarnation`: the receiver's own; 0 if it has none (a chief).
  ReceiverRules(std::string run_id, uint64_t term, uint64_t incarnation);

  // The rules about the sender. INVALID_ARGUMENT: no such member. FAILED_PRECONDITION: another run.
  // ABORTED "fenced term" or "fenced incarnation".
  absl::Status CheckSender(const v1::Identity& sender);

  // CheckSender, and ABORTED "moved" unless the message is for this incarnation of the receiver and
  // its lineage.
  absl::Status CheckSenderAndLineage(const v1::Identity& sender, uint64_t receiver_incarnation);

  uint64_t term() const { return term_; }
  uint64_t incarnation() const { return incarnation_; }
  uint64_t lineage() const { return lineage_; }
  void set_lineage(uint64_t lineage) { lineage_ = lineage; }

 private:
  using MemberKey = std::pair<int, uint32_t>;  // Job, index.

  absl::Status Check(const v1::Identity& sender) const;
  void Remember(const v1::Identity& sender);

  const std::string run_id_;
  const uint64_t incarnation_;
  uint64_t term_;
  uint64_t lineage_ = 0;
  std::map<MemberKey, uint64_t> incarnations_;  // The highest seen of each sender.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_RECEIVER_RULES_H_
