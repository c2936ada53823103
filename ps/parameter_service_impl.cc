#include "ps/parameter_service_impl.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"

#include "base/clock.h"
#include "base/log.h"
#include "base/memory_limit.h"
#include "base/status_macros.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/memory_check.h"
#include "ps/restored_slices.h"
#include "ps/shard_header_check.h"
#include "ps/table_memory.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/config/run_config.h"
#include "runtime/plan/slice_table.h"
#include "runtime/rpc/control_timeout.h"
#include "runtime/transport/call_status.h"
#include "runtime/transport/status_conversion.h"
#include "runtime/variables/initial_values.h"
#include "runtime/variables/slice_store_config.h"

namespace shoal {
namespace {

// Checks the map against the table, and returns the slices of `ps_index`.
absl::StatusOr<std::vector<uint32_t>> OwnedSlices(const v1::ShardMap& map, const SliceTable& table,
                                                  uint32_t ps_index) {
  if (static_cast<uint32_t>(map.owner_size()) != table.size()) {
    return absl::InvalidArgumentError(absl::StrCat("shard_map.owner: ", map.owner_size(),
                                                   " entries for ", table.size(), " slices"));
  }
  if (ps_index >= map.num_ps_tasks()) {
    return absl::InvalidArgumentError(absl::StrCat("shard_map.num_ps_tasks: ", map.num_ps_tasks(),
                                                   ", but this is ps/", ps_index));
  }
  std::vector<uint32_t> owned;
  for (uint32_t slice = 0; slice < table.size(); ++slice) {
    if (map.owner(static_cast<int>(slice)) == ps_index) owned.push_back(slice);
  }
  return owned;
}

// Returns what the store needs without the rows of its tables.
MemoryNeed ComputeNeed(const v1::LoadSlicesRequest& request, const StepPlan& plan,
                       const MemoryBounds& bounds, const PartitionedStore& store) {
  MemoryUse use;
  use.synchronous = IsSynchronous(request.run());
  use.replicas_to_aggregate = plan.replicas_to_aggregate();
  use.num_workers =
      std::max(plan.replicas_to_aggregate(), request.run().deployment().num_replicas());
  const MemoryNeed need = EstimateMemory(store, use, bounds);
  LOG(INFO) << "memory: at most about " << need.Describe() << "; " << bounds.limit.set_by
            << " allows " << (bounds.limit.bytes >> 20) << " MiB, "
            << (bounds.limit.available >> 20) << " MiB are free";
  return need;
}

}  // namespace

absl::Status ParameterServiceImpl::LoadSlices(const v1::LoadSlicesRequest& request,
                                              v1::LoadSlicesResponse* response) {
  ASSIGN_OR_RETURN(const bool is_new, options_.shard->BeginLoad(request.identity()));
  if (is_new) RETURN_IF_ERROR(LoadOrTakeLateFailure(request));
  // Also where nothing was loaded now: whether the sender's lineage is served.
  RETURN_IF_ERROR(options_.shard->Command(request.identity(), [](PartitionedStore*) {}));
  MutexLock lock(&mutex_);
  response->set_version(loaded_.version);
  response->set_bytes(loaded_.bytes);
  response->set_reported_steps(loaded_.reported_steps);
  return absl::OkStatus();
}

absl::Status ParameterServiceImpl::LoadOrTakeLateFailure(const v1::LoadSlicesRequest& request) {
  absl::Status loaded = TakeLateFailure(request);
  if (!loaded.ok()) {
    options_.shard->EndLoad(std::unique_ptr<PartitionedStore>());
    return loaded;
  }
  const Clock* const clock = options_.shard->clock();
  const absl::Time begun = clock->Now();
  absl::StatusOr<std::unique_ptr<PartitionedStore>> store = Load(request);
  loaded = store.status();
  if (store.ok()) {
    options_.on_load(request, **store);
    MutexLock lock(&mutex_);
    loaded_ = Describe(**store);
  } else {
    LOG(ERROR) << "cannot load lineage " << request.identity().lineage() << ": " << loaded;
    // The chief is to know that the load has failed, and why: what its file system calls
    // unavailable, or moved, is neither this ps nor the lineage.
    if (IsOutcomeUnknown(loaded) || absl::IsAborted(loaded)) {
      loaded = absl::UnknownError(loaded.message());
    }
    // The caller may have given up.
    if (clock->Now() - begun > kLoadTimeout / 2) {
      MutexLock lock(&mutex_);
      late_failure_ = {request.identity().lineage(), request.checkpoint(), loaded};
    }
  }
  options_.shard->EndLoad(store.ok() ? std::move(*store) : nullptr);
  return loaded;
}

absl::Status ParameterServiceImpl::TakeLateFailure(const v1::LoadSlicesRequest& request) {
  MutexLock lock(&mutex_);
  const LateFailure late = std::exchange(late_failure_, LateFailure());
  const bool is_of_this =
      late.lineage == request.identity().lineage() && late.checkpoint == request.checkpoint();
  return is_of_this ? late.status : absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<PartitionedStore>> ParameterServiceImpl::Load(
    const v1::LoadSlicesRequest& request) const {
  RETURN_IF_ERROR(CheckRootIsShared(options_.file_system, request));
  const std::vector<v1::VariableSpec> variables(request.variables().begin(),
                                                request.variables().end());
  ASSIGN_OR_RETURN(const SliceTable table,
                   SliceTable::Create(variables, request.shard_map().slice_bytes()));
  ASSIGN_OR_RETURN(const std::vector<uint32_t> owned,
                   OwnedSlices(request.shard_map(), table, options_.ps_index));
  ASSIGN_OR_RETURN(const StepPlan plan, StepPlan::FromProto(request.plan()));
  SliceStore::LoadOptions load{request.identity().lineage(), 0, plan, {}};
  for (const v1::BatchId& batch : request.skipped()) load.skipped.push_back(ToBatchKey(batch));
  const MemoryBounds bounds = ComputeMemoryBounds(options_.ps_memory, ReadMemoryLimit());
  ASSIGN_OR_RETURN(SliceStoreOptions store_options, SliceStoreOptionsFrom(request.run(), plan));
  store_options.staging_bytes =
      options_.staging_bytes != 0 ? options_.staging_bytes : bounds.staging;
  const std::vector<std::vector<uint32_t>> parts =
      SpreadSlices(table, {request.shard_map().owner().begin(), request.shard_map().owner().end()},
                   options_.ps_index, options_.num_parts);
  ASSIGN_OR_RETURN(std::unique_ptr<PartitionedStore> store,
                   PartitionedStore::Create(store_options, variables, table, parts));
  const uint32_t num_async_workers =
      IsSynchronous(request.run()) ? 0 : request.run().deployment().num_replicas();
  const absl::Status header =
      CheckShardHeader(ComputeShardHeaderNeed(*store, variables, num_async_workers));
  if (!header.ok()) {
    // A run that has got this far may never fill its buckets; the writer of a shard checks again.
    if (request.checkpoint().empty()) return header;
    LOG(WARNING) << "checkpoints may fail later: " << header.message();
  }
  // Memory is checked before the values are allocated.
  const MemoryNeed need = ComputeNeed(request, plan, bounds, *store);
  RETURN_IF_ERROR(CheckMemory(need, bounds));
  if (options_.on_memory != nullptr) RETURN_IF_ERROR(options_.on_memory(request, need, bounds));
  // The limit is read each time: this load and other processes change what is free.
  const auto check_tables = [&](bool are_all) {
    return CheckTables(need, store->TablesInUse(),
                       ComputeMemoryBounds(options_.ps_memory, ReadMemoryLimit()), are_all);
  };
  const auto check_rows = [&] { return check_tables(/*are_all=*/false); };
  RETURN_IF_ERROR(Fill(request, variables, std::move(load), check_rows, store.get()));
  RETURN_IF_ERROR(check_tables(/*are_all=*/true));
  store->ForgetEpochsBefore(request.first_kept_epoch());
  return store;
}

absl::Status ParameterServiceImpl::Fill(const v1::LoadSlicesRequest& request,
                                        const std::vector<v1::VariableSpec>& variables,
                                        SliceStore::LoadOptions options,
                                        const std::function<absl::Status()>& check_rows,
                                        PartitionedStore* store) const {
  if (!request.checkpoint().empty()) {
    ASSIGN_OR_RETURN(const std::unique_ptr<RestoredSlices> saved,
                     RestoredSlices::Open(options_.file_system, request, *store));
    options.version = saved->version();
    BoundedSlices bounded(saved.get(), check_rows);
    return store->Load(options, bounded);
  }
  if (!request.run().init_from().empty()) {
    ASSIGN_OR_RETURN(
        const std::unique_ptr<InitialModel> model,
        InitialModel::Open(*options_.file_system, request.run(), variables, store->table(),
                           [store](uint32_t slice) { return store->slot_names(slice); }));
    BoundedSlices bounded(model.get(), check_rows);
    return store->Load(options, bounded);
  }
  InitialValues initial(variables, store->table(), request.run().seed());
  return store->Load(options, initial);
}

ParameterServiceImpl::Loaded ParameterServiceImpl::Describe(const PartitionedStore& store) {
  Loaded loaded;
  for (const uint32_t slice : store.owned()) {
    const uint64_t newest = store.newest_version(slice);
    if (newest != kEveryVersion) loaded.version = std::max(loaded.version, newest);
    if (!store.table()[slice].is_bucket) loaded.bytes += store.table()[slice].num_bytes();
  }
  const uint32_t report_slice = store.table().report_slice();
  if (store.Owns(report_slice)) loaded.reported_steps = store.newest_version(report_slice);
  return loaded;
}

absl::Status ParameterServiceImpl::WithholdBatch(const v1::WithholdBatchRequest& request,
                                                 v1::WithholdBatchResponse* response) {
  return options_.shard->Command(request.identity(), [&](PartitionedStore* store) {
    const WithholdAnswer answer = store->Withhold(ToBatchKey(request.batch()), request.number());
    response->set_ignored(answer.ignored);
    response->set_all_have(answer.all_have);
    response->set_none_has(answer.none_has);
  });
}

absl::Status ParameterServiceImpl::DecideBatch(const v1::DecideBatchRequest& request,
                                               v1::DecideBatchResponse* /*response*/) {
  return options_.shard->Command(request.identity(), [&](PartitionedStore* store) {
    store->Decide(ToBatchKey(request.batch()), request.number(), request.skip());
  });
}

absl::Status ParameterServiceImpl::RequestCut(const v1::RequestCutRequest& request,
                                              v1::RequestCutResponse* response) {
  return options_.shard->Command(request.identity(), [&](PartitionedStore* store) {
    options_.on_cut_asked(request.version());
    store->ForgetEpochsBefore(request.first_kept_epoch());
    const CutAnswer answer = store->RequestCut(request.version());
    response->set_passed(answer.passed);
    response->set_waits(answer.waits);
    response->set_newest_version(answer.newest_version);
  });
}

absl::Status ParameterServiceImpl::GetApplied(const v1::GetAppliedRequest& request,
                                              v1::GetAppliedResponse* response) {
  return options_.shard->Command(request.identity(), [&](PartitionedStore* store) {
    const IntervalSet applied = store->Applied(request.epoch());
    for (const IntervalSet::Range& range : applied.ranges()) {
      response->add_begin(range.begin);
      response->add_end(range.end);
    }
  });
}

absl::Status ParameterServiceImpl::Finish(const v1::FinishRequest& request,
                                          v1::FinishResponse* /*response*/) {
  RETURN_IF_ERROR(options_.shard->CheckCommand(request.identity()));
  options_.on_finish(absl::Status(static_cast<absl::StatusCode>(request.failure_code()),
                                  ToLogLine(request.message())));
  return absl::OkStatus();
}

}  // namespace shoal
