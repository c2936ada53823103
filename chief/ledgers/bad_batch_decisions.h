#ifndef SHOAL_CHIEF_LEDGERS_BAD_BATCH_DECISIONS_H_
#define SHOAL_CHIEF_LEDGERS_BAD_BATCH_DECISIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "runtime/plan/batch_key.h"

namespace shoal {

// Decides about batches that are not finite or that crash the workers that compute them. ASYNC: the
// data ledger skips such a batch by itself, and the chief notifies every ps (Announce). SYNC: the
// chief asks every ps to withhold it, i.e. to report whether its slices have the contribution and
// to take none from then on:
//   no slice has it    -> all skip it
//   all slices have it -> dying workers delivered it in pieces: done, no worker computes it again
//   some have it       -> it is computed again; if it fails again, everything is rolled back
//                         to the last cut with the batch skipped
// A withhold and its decision carry a number; a decision is repeated until every ps has
// acknowledged it. Skips are kept for ever: every state, every load and every manifest contains
// them.
//
// Not thread-safe. Messages may be lost, repeated and reordered.
class BadBatchDecisions {
 public:
  explicit BadBatchDecisions(uint32_t num_ps) : num_ps_(num_ps) {}

  // Notes that the batch failed in this incarnation of a worker. `certain` means that computing it
  // again will not help. A batch that failed in two incarnations is treated in the same way.
  void Report(const BatchKey& batch, uint64_t incarnation, bool certain, const std::string& reason);

  // ASYNC: notes that the data ledger skips the batch. Unanswered() has a message for every ps
  // until that ps has acknowledged it.
  void Announce(const BatchKey& batch);

  struct Message {
    uint32_t ps = 0;
    BatchKey batch;
    uint64_t number = 0;
    bool decided = false;  // false: withhold; true: decision
    bool skip = false;
  };
  // Returns all messages that are not answered yet. Send them repeatedly.
  std::vector<Message> Unanswered() const;

  void OnWithheld(uint32_t ps, const BatchKey& batch, uint64_t number, bool all_have,
                  bool none_has);
  void OnDecisionAcknowledged(uint32_t ps, const BatchKey& batch, uint64_t number);

  // Decides what can be decided. Returns true if all ps must go back to the last checkpoint (the
  // batch counts as skipped already).
  bool Decide();

  // Notes that all slices went back to a cut, under a new lineage: nothing is pending or delivered
  // any more. Skips stay.
  void OnRollback();

  // Restores the skips of a manifest.
  void RestoreSkips(absl::Span<const BatchKey> skipped);
  // Forgets the skips of the epoch and of later ones, because their batches contain different
  // examples now.
  void ForgetSkipsFrom(uint32_t epoch);

  const std::map<BatchKey, std::string>& skipped() const { return skipped_; }  // batch -> reason
  const std::set<BatchKey>& delivered() const { return delivered_; }
  bool IsPending(const BatchKey& batch) const { return pending_.count(batch) > 0; }
  bool empty() const { return pending_.empty(); }
  // Rises with every change of skipped() and delivered().
  uint64_t changes() const { return changes_; }

 private:
  struct Failures {
    std::set<uint64_t> incarnations;  // a repeated report counts once
    std::string reason;
  };
  struct Pending {
    uint64_t number = 0;
    bool certain = false;
    // Keyed by ps: its answer, whether all or none of its slices have the batch.
    std::map<uint32_t, std::pair<bool, bool>> answers;
    bool decided = false;
    bool skip = false;
    std::set<uint32_t> acknowledged;
    // Reports after the decision.
    bool asks_again = false;
    bool certain_again = false;
  };

  const uint32_t num_ps_;
  uint64_t last_number_ = 0;
  uint64_t changes_ = 0;
  std::map<BatchKey, Failures> failures_;
  std::map<BatchKey, Pending> pending_;
  std::map<BatchKey, std::string> skipped_;
  std::set<BatchKey> delivered_;
};

// Returns the length of the longest sequence of batches next to each other that are skipped. The
// first batch of an epoch counts as next to any batch of the epoch before.
uint64_t MostSkippedInARow(const std::map<BatchKey, std::string>& skipped);

}  // namespace shoal

#endif  // SHOAL_CHIEF_LEDGERS_BAD_BATCH_DECISIONS_H_
