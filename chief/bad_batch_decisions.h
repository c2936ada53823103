#ifndef SHOAL_CHIEF_BAD_BATCH_DECISIONS_H_
#define SHOAL_CHIEF_BAD_BATCH_DECISIONS_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/types/span.h"

#include "runtime/plan/batch_key.h"

namespace shoal {

// What becomes of batches that are non-finite or that kill whoever computes them. ASYNC: the data
// ledger skips such a batch by itself, and every ps is told (Announce). SYNC: the chief asks every
// ps to withhold it, i.e. to say whether its slices have the contribution and to take none if not:
//   no slice has it    -> all skip it
//   all slices have it -> it was delivered in pieces by the dying: done, nobody computes it again
//   some have it       -> it is computed again; if it goes on failing, everything is rolled back
//                         to the last cut with the batch skipped
// A withhold and its decision carry a number; a decision is repeated until every ps has
// acknowledged it. Skips are remembered for ever: they are part of every view, every load and every
// manifest.
//
// One thread at a time. Messages may be lost, repeated and reordered.
class BadBatchDecisions {
 public:
  explicit BadBatchDecisions(uint32_t num_ps) : num_ps_(num_ps) {}

  // A failure of the batch at `incarnation`. `certain`: computing it again will not help. Two
  // incarnations that failed make it certain enough to ask.
  void Report(const BatchKey& batch, uint64_t incarnation, bool certain, const std::string& reason);

  // ASYNC: the ledger skips the batch already; every ps is told until it has acknowledged it.
  void Announce(const BatchKey& batch);

  struct Message {
    uint32_t ps = 0;
    BatchKey batch;
    uint64_t number = 0;
    bool decided = false;  // false: withhold; true: decision
    bool skip = false;
  };
  // All messages that are not answered yet; send them again and again.
  std::vector<Message> Unanswered() const;

  void OnWithheld(uint32_t ps, const BatchKey& batch, uint64_t number, bool all_have,
                  bool none_has);
  void OnDecisionAcknowledged(uint32_t ps, const BatchKey& batch, uint64_t number);

  // Decides what can be decided. True: everything must be rolled back (the new skip is remembered
  // already).
  bool Decide();

  // All slices went back to a cut, under a new lineage: nothing is pending or delivered any more.
  // Skips stay.
  void OnRollback();

  // From a manifest.
  void RestoreSkips(absl::Span<const BatchKey> skipped);
  // Batches of the epoch and of later ones are others than those that were skipped.
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
    std::map<uint32_t, std::pair<bool, bool>> answers;  // ps -> all have, none has
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

// The longest run of batches next to each other that are skipped (batch -> reason). The first of an
// epoch counts as next to any of the epoch before.
uint64_t MostSkippedInARow(const std::map<BatchKey, std::string>& skipped);

}  // namespace shoal

#endif  // SHOAL_CHIEF_BAD_BATCH_DECISIONS_H_
