#ifndef SHOAL_CHIEF_LEDGERS_ISSUED_INCARNATIONS_H_
#define SHOAL_CHIEF_LEDGERS_ISSUED_INCARNATIONS_H_

#include <cstdint>
#include <deque>
#include <map>
#include <optional>

#include "absl/status/status.h"

#include "runtime/cluster/task.h"
#include "runtime/plan/batch_key.h"

namespace shoal {

// The incarnations that this chief has issued, and the batch that each of them died of. A report of
// a death counts only for an incarnation that was issued, and each incarnation dies of one batch at
// most: made-up reports can spoil no more batches than there were processes. Not thread-safe.
class IssuedIncarnations {
 public:
  // Remembers an incarnation, and forgets all but the newest kKept incarnations of its task. A
  // repeated call changes nothing.
  void Issue(TaskId task, uint64_t incarnation);

  // Returns INVALID_ARGUMENT unless the incarnation was issued to the task.
  absl::Status Check(TaskId task, uint64_t incarnation);

  // Makes the same check and records that the incarnation died of this batch. Returns
  // INVALID_ARGUMENT if it has died of another batch. A repeated report changes nothing.
  absl::Status RecordDeath(TaskId task, uint64_t incarnation, const BatchKey& batch);

  static constexpr size_t kKept = 16;

 private:
  struct Issued {
    uint64_t incarnation = 0;
    std::optional<BatchKey> died_of;
  };

  Issued* Find(TaskId task, uint64_t incarnation);  // Null: it was not issued.

  std::map<TaskId, std::deque<Issued>> issued_;
};

}  // namespace shoal

#endif  // SHOAL_CHIEF_LEDGERS_ISSUED_INCARNATIONS_H_
