// The receiver rules of proto/v1/identity.proto: which senders a ps accepts messages from, and for
// which lineage.
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

// Task indices are below this, so that the memory for tasks is bounded.
inline constexpr uint32_t kMaxMemberIndex = 1 << 16;

// The identities that a ps accepts. Only the chief changes them: a command may raise the term, and
// the run's state, which the chief sends, names the incarnation of each worker. An exchange changes
// nothing, however high the numbers in it are, and neither does a refused message. Not thread-safe.
class ReceiverRules {
 public:
  // `incarnation` is the receiver's own.
  ReceiverRules(std::string run_id, uint64_t term, uint64_t incarnation);

  // Checks the sender of a command. Returns INVALID_ARGUMENT if the member does not exist,
  // UNAVAILABLE if it belongs to another run, PERMISSION_DENIED if it is not the chief, and
  // ABORTED "fenced term" if its term is old. UNAVAILABLE, because a sender of another run probably
  // looks for a ps of its own run, which had this address and has died: the refusal must not end
  // that run.
  absl::Status CheckCommand(const v1::Identity& sender);

  // The same, and returns ABORTED "moved" unless the command is for this lineage.
  absl::Status CheckCommandAndLineage(const v1::Identity& sender);

  // Checks the sender of an exchange. Returns the errors of CheckCommand, except that
  // PERMISSION_DENIED means that the sender is not a worker. Returns also ABORTED "fenced
  // incarnation" if another process has replaced the sender, and UNAVAILABLE if the chief has not
  // announced the sender's term or incarnation to this ps yet, which it may do soon.
  absl::Status CheckExchange(const v1::Identity& sender) const;

  // The same, and returns ABORTED "moved" unless the message is for this incarnation of the
  // receiver and for its lineage.
  absl::Status CheckExchangeAndLineage(const v1::Identity& sender,
                                       uint64_t receiver_incarnation) const;

  // Accepts the incarnations, keyed by worker index, that the chief has issued. A worker that left
  // the view is accepted until another process has its place: its late contributions count once
  // even if another worker computes them too.
  void LearnWorkers(const std::map<uint32_t, uint64_t>& incarnations);

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
  std::map<uint32_t, uint64_t> workers_;  // The newest incarnation of each worker, by index.
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_RPC_RECEIVER_RULES_H_
