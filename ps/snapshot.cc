#include "ps/snapshot.h"

#include <optional>
#include <utility>

#include "absl/types/span.h"

#include "base/status_macros.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/rows_base.h"
#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/model_export.h"
#include "runtime/checkpoint/shard_writer.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/stored_rows.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/variable_updater.h"

namespace shoal {
namespace {

// Adds the bucket's rows, all of them or the changes, which the writer selects and reads into
// `rows` when it writes them. Returns the number of keys.
uint64_t AddBucket(const SnapshotLineage& lineage, const SliceStoreEvents::CutPart& part,
                   const RowsBase::Changes* changes, BucketRows* rows, ShardWriter* writer) {
  const uint32_t table = lineage.slices[part.slice].variable;
  const v1::VariableSpec& spec = lineage.variables[table];
  const BucketCut& cut = *part.rows;
  ShardWriter::Bucket bucket;
  bucket.table = spec.name();
  bucket.index = part.slice - lineage.first_slice[table];
  bucket.dim = DimOf(spec);
  bucket.slots = MakeRowSlots(spec, lineage.slots[table]);
  const BucketCut::Size size = changes == nullptr ? cut.GetSize(std::nullopt) : changes->size;
  bucket.num_rows = size.rows;
  bucket.num_counted = size.counted;
  std::optional<uint64_t> since;
  if (changes != nullptr) since = changes->since;
  bucket.read = [&cut, since, rows] {
    cut.Read(cut.Select(since), rows);
    return rows;
  };
  writer->AddBucket(std::move(bucket), {part.version, part.value_version, part.applied});
  return size.rows + size.counted;
}

}  // namespace

SnapshotLineage SnapshotLineage::Of(const v1::LoadSlicesRequest& request,
                                    const PartitionedStore& store) {
  SnapshotLineage lineage;
  lineage.lineage = request.identity().lineage();
  lineage.term = request.identity().term();
  lineage.num_ps = request.shard_map().num_ps_tasks();
  lineage.last_version =
      store.plan().LastStep(request.run().max_steps(), request.run().num_epochs());
  const uint32_t kept = request.run().checkpoint().keep();
  if (kept > 0) lineage.kept_checkpoints = kept;
  lineage.root = request.checkpoint_root();
  lineage.slices = store.table().slices();
  lineage.report_slice = store.table().report_slice();
  lineage.slots.resize(store.table().num_variables());
  for (uint32_t v = 0; v < store.table().num_variables(); ++v) {
    lineage.variables.push_back(request.variables(static_cast<int>(v)));
    lineage.first_slice.push_back(store.table().first_slice_of(v));
  }
  for (const uint32_t slice : store.owned()) {
    lineage.slots[store.table()[slice].variable] = store.slot_names(slice);
  }
  return lineage;
}

std::string SnapshotLineage::GetDirectory(uint64_t version) const {
  // A version is cut once in a lineage, and a term's lineages have different numbers: so all ps
  // agree on a name that nobody has used before, without asking.
  return CheckpointName{version, term, lineage}.ToString();
}

absl::Status WriteSnapshot(FileSystem& file_system, uint32_t ps_index,
                           const SnapshotLineage& lineage, const Snapshot& snapshot,
                           const SnapshotCalls& calls, RowsBase* base,
                           v1::ReportShardRequest* report) {
  const std::string directory = JoinPath(lineage.root, lineage.GetDirectory(snapshot.version));
  RETURN_IF_ERROR(file_system.MakeDirectory(directory));
  RETURN_IF_ERROR(file_system.SyncDirectory(lineage.root));
  ShardWriter writer(file_system, {directory, ps_index, lineage.num_ps});
  const RowsBase::Plan plan = base->PlanFor(file_system, lineage, snapshot);
  if (!plan.bases.empty()) writer.SetBases(plan.bases);
  writer.StopIf(calls.should_stop);
  const auto drop_rows = [&] {
    for (const SliceStoreEvents::CutPart& part : snapshot.parts) {
      if (part.rows != nullptr) part.rows->Release();
    }
    if (calls.on_rows_dropped != nullptr) calls.on_rows_dropped();
  };
  const bool may_be_written_again = snapshot.version == lineage.last_version;
  if (!may_be_written_again) writer.OnRead(drop_rows);
  uint64_t num_keys = 0;
  BucketRows rows;
  for (const SliceStoreEvents::CutPart& part : snapshot.parts) {
    const Slice& slice = lineage.slices[part.slice];
    if (part.slice == lineage.report_slice) report->set_reported_steps(part.version);
    if (slice.is_bucket) {
      const auto changes = plan.changes.find(part.slice);
      num_keys +=
          AddBucket(lineage, part, changes == plan.changes.end() ? nullptr : &changes->second,
                    &rows, &writer);
      continue;
    }
    const size_t stride = VariableUpdater::slot_stride(slice.num_elements);
    std::vector<ShardWriter::Slot> slots;
    for (const std::string& name : lineage.slots[slice.variable]) {
      slots.push_back({name, {part.slots->data() + slots.size() * stride, slice.num_elements}});
    }
    const SavedSliceState state{part.version, part.value_version, part.applied};
    writer.Add(lineage.variables[slice.variable].name(),
               part.slice - lineage.first_slice[slice.variable],
               {part.value->data(), slice.num_elements}, slots, state);
  }
  ASSIGN_OR_RETURN(*report->mutable_file(), writer.Finish());
  base->Add(lineage, snapshot, num_keys, report->file());
  if (may_be_written_again) drop_rows();
  return absl::OkStatus();
}

absl::Status ExportSnapshot(FileSystem& file_system, const SnapshotLineage& lineage,
                            const Snapshot& snapshot, const std::function<bool()>& should_stop) {
  const ModelExportLayout layout(lineage.variables, snapshot.version);
  std::vector<ExportedSlice> slices;
  for (const SliceStoreEvents::CutPart& part : snapshot.parts) {
    const Slice& slice = lineage.slices[part.slice];
    if (slice.is_bucket) continue;
    slices.push_back({layout.OffsetOf(slice.variable, slice.first_element),
                      {part.value->data(), slice.num_elements}});
  }
  return WriteExportPart(file_system,
                         JoinPath(lineage.root, lineage.GetDirectory(snapshot.version)), slices,
                         should_stop);
}

}  // namespace shoal
