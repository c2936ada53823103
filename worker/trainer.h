#ifndef SHOAL_WORKER_TRAINER_H_
#define SHOAL_WORKER_TRAINER_H_

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

#include "base/clock.h"
#include "ml/data/batch_plan.h"
#include "ml/data/dataset.h"
#include "proto/v1/chief_service.pb.h"
#include "runtime/cluster/batch_key.h"
#include "runtime/cluster/slice_table.h"
#include "runtime/cluster/step_plan.h"
#include "runtime/process/batch_mark.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/variables/variable_store.h"
#include "worker/replica.h"

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
  const Dataset* test = nullptr;  // Null: nothing is evaluated.
  BatchPlan train_plan;           // Training data: replica batches of the epochs' permutations.
  BatchPlan test_plan;            // Test data in order: its batches are the evaluation blocks.
  StepPlan steps;
  int train_threads =
      1;  // threads that share the reading of a batch; the result does not depend on them
  int test_threads = 1;
  SummaryWriter* summaries = nullptr;  // Gets what the model summarises; may be null.
  WorkerMetrics* metrics = nullptr;    // Counts there; may be null.
  BatchMark* mark = nullptr;           // Records the batch that is being computed; may be null.
  // Returns this task's identity for messages to the chief; the lineage is filled in.
  std::function<v1::Identity()> identity;
};

// Notes the batch that is about to be computed, if there is a mark.
void MarkInHand(const TrainerOptions& options, const BatchKey& batch);

// The error that ends a worker whose exchange failed for a reason that neither repeating nor a new
// view mends, or whose contribution or values arrived damaged however often they were sent; OK for
// all others. UNAVAILABLE: a fresh process may do better.
absl::Status HopelessExchange(const ExchangeResult& result);

// Number of evaluation blocks of a test split, and the plan of its blocks in order.
uint64_t NumEvaluationBlocks(const BatchPlan& test_plan);

// Computes batches until the run is over.
class Trainer {
 public:
  virtual ~Trainer() = default;

  // Returns when the run's state says that it is over (OK), failed (its message), or when this
  // worker cannot go on.
  virtual absl::Status Run() = 0;

  // The run's state changed. Any thread; older states are ignored.
  virtual void OnState(const v1::RunState& state) = 0;

  // For heartbeats. Any thread.
  struct Progress {
    uint64_t step = 0;
    std::string activity;
    std::optional<BatchKey> batch;  // being computed
    bool computing = false;         // a batch or an evaluation block, now
    uint64_t computed = 0;          // batches and blocks that are computed
  };
  virtual Progress progress() const = 0;
};

// Calls until the outcome is known: OK, or an error that repeating does not mend. Gives up when
// `over` says so.
absl::Status CallUntilAnswered(const Clock* clock, absl::FunctionRef<bool()> over,
                               absl::FunctionRef<absl::Status()> call);

}  // namespace shoal

#endif  // SHOAL_WORKER_TRAINER_H_
