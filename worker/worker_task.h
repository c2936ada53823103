#ifndef SHOAL_WORKER_WORKER_TASK_H_
#define SHOAL_WORKER_WORKER_TASK_H_

#include <functional>
#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "proto/v1/identity.pb.h"
#include "runtime/cluster/slice_table.h"
#include "runtime/process/task_options.h"
#include "runtime/rpc/chief_client.h"
#include "runtime/rpc/remote_exchanges.h"
#include "runtime/variables/variable_store.h"
#include "worker/run_inputs.h"

namespace shoal {

// Connections that a worker needs besides its task's options.
struct WorkerLinks {
  ChiefClient* chief = nullptr;  // Borrowed.
  // The variables, once it is known how they are cut.
  std::function<std::unique_ptr<VariableStore>(
      const SliceTable& table, std::vector<ExchangeGroup> groups, const v1::Identity& identity)>
      make_store;
  // The ways to the ps, by index, as they are now, of the store that make_store made. May be null.
  std::function<std::vector<RemoteExchanges::Way>()> check_ways;
  // Ends calls under way to the chief: the worker is about to stop.
  std::function<void()> close_chief = [] {};
  // Called when the worker begins or ceases to be able to do its work. May be null.
  std::function<void(bool)> on_ready;
  // Called when the chief has given this worker's place away, or is lost, and the batch under way
  // still does not end: a process of its own exits here, so that it can be started again. May be
  // null.
  std::function<void(const absl::Status& why)> abandon;
};

// One replica of the training: builds the model, registers with the chief, computes batches until
// the run is over. OK: the run is over. ABORTED: another process took this place. UNAVAILABLE: the
// chief is lost. Otherwise what is wrong with the model, the data, or the run.
absl::Status RunWorkerTask(const TaskOptions& options, const WorkerLinks& links,
                           const ModelFactory& model);

// The same over gRPC, with options.chief_address and the ps that the chief names.
absl::Status RunWorker(const TaskOptions& options, const ModelFactory& model);
absl::Status RunWorker(const TaskOptions& options);  // ModelFromRunFile

}  // namespace shoal

#endif  // SHOAL_WORKER_WORKER_TASK_H_
