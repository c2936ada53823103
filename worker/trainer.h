#ifndef SHOAL_WORKER_TRAINER_H_
#define SHOAL_WORKER_TRAINER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/plan/batch_key.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/process/batch_mark.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/variables/variable_store.h"
#include "worker/replica/replica.h"

namespace shoal {

class SummaryWriter;
struct WorkerMetrics;

// The surroundings of a trainer. All pointers are borrowed and outlive it.
struct TrainerOptions {
  uint32_t worker = 0;  // the task's index
  const Clock* clock = nullptr;
  Replica* replica = nullptr;
  VariableStore* store = nullptr;
  ChiefClient* chief = nullptr;
  const Dataset* train = nullptr;
  const Dataset* test = nullptr;  // Null if nothing is evaluated.
  BatchPlan train_plan;           // Training data: replica batches of the epochs' permutations.
  BatchPlan test_plan;            // Test data in order: its batches are the evaluation blocks.
  StepPlan steps;
  // Threads that share the reading of a batch. The result does not depend on their number.
  int train_threads = 1;
  int test_threads = 1;
  SummaryWriter* summaries = nullptr;  // Receives the model's summaries; may be null.
  WorkerMetrics* metrics = nullptr;    // Receives counts; may be null.
  BatchMark* mark = nullptr;           // Records the batch that is being computed; may be null.
  // A program's reports of progress count at most once in this time.
  absl::Duration progress_period = absl::Seconds(15);
  // Returns this task's identity for messages to the chief; the trainer fills in the lineage.
  std::function<v1::Identity()> identity;
};

// Writes the batch that is about to be computed to options.mark, if there is one.
void MarkBatch(const TrainerOptions& options, const BatchKey& batch);

// Returns the error with which the worker must end after this exchange: neither repeating it nor a
// new view would help, or contributions or values arrived damaged every time they were sent. OK if
// the worker can continue. UNAVAILABLE if a fresh process may succeed. `ps` is the other side.
absl::Status FatalErrorOf(uint32_t ps, const ExchangeResult& result);

// Computes batches until the run is over.
class Trainer {
 public:
  virtual ~Trainer() = default;

  // Blocks until the run is over (OK) or has failed (the run's error), or until this worker cannot
  // continue.
  virtual absl::Status Run() = 0;

  // The run's state changed. Any thread; older states are ignored.
  virtual void OnState(const v1::RunState& state) = 0;

  // The worker's progress, for heartbeats. Any thread may ask.
  struct Progress {
    uint64_t step = 0;
    std::string activity;
    std::optional<BatchKey> batch;  // the batch that is being computed
    bool computing = false;         // a batch or an evaluation block is being computed
    // Batches and blocks that have been computed, and reports of progress of a program.
    uint64_t computed = 0;
  };
  virtual Progress progress() const = 0;
};

// Repeats `call` until its outcome is known: OK, or an error that repeating cannot change. Gives up
// when `over` returns true.
absl::Status CallUntilAnswered(const Clock* clock, absl::FunctionRef<bool()> over,
                               absl::FunctionRef<absl::Status()> call);

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAINER_H_
