// Executes the chief's commands to a ps (proto/v1/parameter_service.proto) on a ParameterShard.
#ifndef SHOAL_PS_PARAMETER_SERVICE_IMPL_H_
#define SHOAL_PS_PARAMETER_SERVICE_IMPL_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

#include "base/file_system.h"
#include "base/mutex.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/memory_check.h"
#include "ps/parameter_shard.h"

namespace shoal {

// The calls of parameter_service.proto. GrpcParameterService calls these functions when a request
// arrives. Thread-safe.
class ParameterServiceImpl {
 public:
  struct Options {
    uint32_t ps_index = 0;
    ParameterShard* shard = nullptr;    // Must outlive the service, as must the next.
    FileSystem* file_system = nullptr;  // Holds the checkpoints.
    uint64_t ps_memory = 0;             // The run's cluster.ps_memory; 0: only the kernel's limit.
    uint64_t staging_bytes = 0;         // See SliceStoreOptions; 0: derived from ps_memory.
    size_t num_parts = 1;               // See SpreadSlices.
    // Called when the lineage of `request` is about to be served from `store`.
    std::function<void(const v1::LoadSlicesRequest& request, const PartitionedStore& store)>
        on_load;
    // Called before on_load with the memory that the ps needs, without the rows of tables, and the
    // memory that it may use. Its error ends the load. May be null.
    std::function<absl::Status(const v1::LoadSlicesRequest& request, const MemoryNeed& need,
                               const MemoryBounds& bounds)>
        on_memory;
    // Called for each request of a cut, before the slices get the request. All locks of the shard
    // are held.
    std::function<void(uint64_t version)> on_cut_asked;
    std::function<void(const absl::Status& run_failed)> on_finish;
  };

  explicit ParameterServiceImpl(Options options) : options_(std::move(options)) {}

  absl::Status LoadSlices(const v1::LoadSlicesRequest& request, v1::LoadSlicesResponse* response);
  absl::Status WithholdBatch(const v1::WithholdBatchRequest& request,
                             v1::WithholdBatchResponse* response);
  absl::Status DecideBatch(const v1::DecideBatchRequest& request,
                           v1::DecideBatchResponse* response);
  absl::Status RequestCut(const v1::RequestCutRequest& request, v1::RequestCutResponse* response);
  absl::Status GetApplied(const v1::GetAppliedRequest& request, v1::GetAppliedResponse* response);
  absl::Status Finish(const v1::FinishRequest& request, v1::FinishResponse* response);

 private:
  absl::StatusOr<std::unique_ptr<PartitionedStore>> Load(
      const v1::LoadSlicesRequest& request) const;
  // Loads the checkpoint, the initial model or the initial values of the request.
  // `check_rows` is called before the rows of each bucket are read, and its error ends the load.
  absl::Status Fill(const v1::LoadSlicesRequest& request,
                    const std::vector<v1::VariableSpec>& variables, SliceStore::LoadOptions options,
                    const std::function<absl::Status()>& check_rows, PartitionedStore* store) const;

  // The state right after the load, before workers changed it. Repeated answers are the same; steps
  // that were applied since are reported as steps.
  struct Loaded {
    uint64_t version = 0;
    uint64_t bytes = 0;
    uint64_t reported_steps = 0;
  };
  static Loaded Describe(const PartitionedStore& store);

  // A load that failed, perhaps after its caller had given up. The next request of the same load
  // gets the reason.
  struct LateFailure {
    uint64_t lineage = 0;
    std::string checkpoint;
    absl::Status status;
  };
  // Loads and serves the slices, or returns why an earlier attempt could not.
  absl::Status LoadOrTakeLateFailure(const v1::LoadSlicesRequest& request);
  // Returns the late failure of this request, only once; OK if there is none.
  absl::Status TakeLateFailure(const v1::LoadSlicesRequest& request);

  const Options options_;
  Mutex mutex_;
  Loaded loaded_ ABSL_GUARDED_BY(mutex_);
  LateFailure late_failure_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace shoal

#endif  // SHOAL_PS_PARAMETER_SERVICE_IMPL_H_
