// The receiver rules of proto/v1/identity.proto, in their one place: who may still speak, and about
// which variables.
#ifndef SHOAL_RUNTIME_RPC_RECEIVER_RULES_H_
#define SHOAL_RUNTIME_RPC_RECEIVER_RULES_H_

#include <cstdint>
#include <map>
#include <string>

#include "absl/status/status.h"

namespace shoal {
namespace v1 {
class Identity;
}

// No task has this index or a higher one: what is remembered of each is bounded.
inline constexpr uint32_t kMaxMemberIndex = 1 << 16;

// What a ps knows of who may speak to it. Only the chief teaches it: a command may raise the term,
// and the run's state, which the chief hands out, names the incarnation of each worker. An exchange
// teaches it nothing, however high the numbers in it are. A refused message changes nothing. Not
// thread-safe.
class ReceiverRules {
 public:
  // `incarnation`: the receiver's own.
  ReceiverRules(std::string run_id, uint64_t term, uint64_t incarnation);

  // The rules about a command. INVALID_ARGUMENT: there is no such member. FAILED_PRECONDITION: the
  // sender is of another run. PERMISSION_DENIED: the sender is not the chief. ABORTED "fenced
  // term".
  absl::Status CheckCommand(const v1::Identity& sender);

  // CheckCommand, and ABORTED "moved" unless the command is about this lineage.
  absl::Status CheckCommandAndLineage(const v1::Identity& sender);

  // The rules about a worker's exchange. As those about a command, and: PERMISSION_DENIED: the
  // sender is not a worker. ABORTED "fenced incarnation". UNAVAILABLE: the chief has not named this
  // term or incarnation yet; a moment later it may have.
  absl::Status CheckExchange(const v1::Identity& sender) const;

  // CheckExchange, and ABORTED "moved" unless the message is for this incarnation of the receiver
  // and its lineage.
  absl::Status CheckExchangeAndLineage(const v1::Identity& sender,
                                       uint64_t receiver_incarnation) const;

  // The chief has issued these incarnations. A worker that left the view keeps its own until
  // another process has its place: what it still pushes counts once, whoever else computes it.
  void LearnWorkers(const std::map<uint32_t, uint64_t>& incarnations);  // By index.

  uint64_t term() const { return term_; }
  uint64_t incarnation() const { return incarnation_; }
  uint64_t lineage() const { return lineage_; }
  void set_lineage(uint64_t lineage) { lineage_ = lineage; }

 private:
  absl::Status CheckIsChief(const v1::Identity& sender) const;
  absl::Status CheckMember(const v1::Identity& sender) const;
  absl::Status Moved(const v1::Identity& sender, uint64_t receiver_incarnation) const;

  const std::string run_id_;
  const uint64_t incarnation_;
  uint64_t term_;
  uint64_t lineage_ = 0;
  std::map<uint32_t, uint64_t> workers_;  // The newest incarnation of each, by index.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_RECEIVER_RULES_H_
