#ifndef SHOAL_WORKER_WORKER_TASK_H_
#define SHOAL_WORKER_WORKER_TASK_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/v1/identity.pb.h"
#include "runtime/exchange/remote_exchanges.h"
#include "runtime/plan/slice_table.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/task/task_options.h"
#include "runtime/variables/variable_store.h"
#include "worker/replica/replica_inputs.h"

namespace shoal {

// The connections that a worker needs in addition to its task's options.
struct WorkerLinks {
  ChiefClient* chief = nullptr;  // Borrowed.
  // Makes the store of the variables, once the division into slices is known.
  std::function<std::unique_ptr<VariableStore>(
      const SliceTable& table, std::vector<ExchangeGroup> groups, const v1::Identity& identity)>
      make_store;
  // Returns the current state of the links to the ps, by index, of the store that make_store made.
  // May be null.
  std::function<std::vector<RemoteExchanges::Link>()> check_links;
  // Ends the calls to the chief that are under way, because the worker is about to stop.
  std::function<void()> close_chief = [] {};
  // Called when the worker becomes able (true) or unable (false) to do its work. May be null.
  std::function<void(bool)> on_ready;
  // Called when the chief has given this worker's place away, or is lost, and the batch under way
  // does not end either. A process that runs only this worker exits here, so that it can be
  // restarted. May be null.
  std::function<void(const absl::Status& why)> abandon;
};

// Runs one replica of the training: builds the model, registers with the chief, and computes
// batches until the run is over. Returns OK when the run is over, ABORTED if another process took
// this place, UNAVAILABLE if the chief is lost, and otherwise the error of the model, the data or
// the run.
absl::Status RunWorkerTask(const TaskOptions& options, const WorkerLinks& links,
                           const ModelFactory& model);

// The same over gRPC, with options.chief_address and the ps that the chief lists.
absl::Status RunWorker(const TaskOptions& options, const ModelFactory& model);
absl::Status RunWorker(const TaskOptions& options);  // ModelFromRunFile

}  // namespace shoal

#endif  // SHOAL_WORKER_WORKER_TASK_H_
