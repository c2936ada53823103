// All ps of a run, without a network, for tests of their checkpoints.
#ifndef SHOAL_PS_SNAPSHOT_TESTING_H_
#define SHOAL_PS_SNAPSHOT_TESTING_H_

#include <cstdint>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "gtest/gtest.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "base/status_matchers.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "proto/v1/run_config.pb.h"
#include "ps/restored_slices.h"
#include "ps/rows_base.h"
#include "ps/snapshot.h"
#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/checkpoint/initial_model.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/tables/bucket_rows.h"
#include "runtime/tables/stored_rows.h"
#include "runtime/variables/initial_values.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/row_payload.h"
#include "runtime/variables/slice_store.h"

namespace shoal {

inline constexpr char kRoot[] = "checkpoints";
inline constexpr uint64_t kSliceBytes = 64;

inline v1::VariableSpec Spec(const std::string& name, int64_t size) {
  v1::VariableSpec spec;
  spec.set_name(name);
  spec.add_shape(size);
  spec.set_dtype(v1::DATA_TYPE_FLOAT32);
  spec.mutable_initializer()->set_kind(v1::Initializer::KIND_CONSTANT);
  spec.set_update(v1::UPDATE_KIND_OPTIMIZER);
  return spec;
}

// A dense variable, a table with two slots of a row, and one with a single number as its slot,
// whose rows are counted before they are stored and expire.
inline std::vector<v1::VariableSpec> TestVariables() {
  std::vector<v1::VariableSpec> variables = {Spec("w", 40), Spec("item", 3), Spec("user", 2)};
  v1::TableSpec* const item = variables[1].mutable_table();
  item->set_buckets(7);
  item->mutable_optimizer()->mutable_adam();
  v1::TableSpec* const user = variables[2].mutable_table();
  user->set_buckets(3);
  user->mutable_optimizer()->mutable_adagrad();
  user->set_rowwise(true);
  user->set_min_count(2);
  user->set_idle_updates(6);
  return variables;
}

inline void ExpectSameRows(const BucketRows& one, const BucketRows& other) {
  EXPECT_EQ(one.keys, other.keys);
  EXPECT_EQ(one.touched, other.touched);
  EXPECT_EQ(one.rows, other.rows);
  EXPECT_EQ(one.counted_keys, other.counted_keys);
  EXPECT_EQ(one.counts, other.counts);
  EXPECT_EQ(one.counted_touched, other.counted_touched);
}

// All ps of a run, without a network. The batch of each step touches random rows.
class Cluster {
 public:
  Cluster(FileSystem* disk, uint32_t num_ps,
          std::vector<v1::VariableSpec> variables = TestVariables())
      : disk_(*disk),
        variables_(std::move(variables)),
        table_(SliceTable::Create(variables_, kSliceBytes).value()) {
    request_.mutable_identity()->set_run_id("0123456789abcdef0123456789abcdef");
    request_.mutable_identity()->set_term(1);
    request_.set_checkpoint_root(kRoot);
    request_.mutable_shard_map()->set_num_ps_tasks(num_ps);
    request_.mutable_shard_map()->set_slice_bytes(kSliceBytes);
    for (const v1::VariableSpec& variable : variables_) *request_.add_variables() = variable;
    SliceStoreOptions options;
    options.update.schedule.learning_rate = 0.5;
    for (uint32_t ps = 0; ps < num_ps; ++ps) {
      std::vector<uint32_t> owned;
      for (uint32_t slice = ps; slice < table_.size(); slice += num_ps) owned.push_back(slice);
      ps_.push_back(std::make_unique<PartitionedStore>(
          SliceStore::Create(options, variables_, table_, owned).value()));
    }
    bases_.resize(num_ps);
  }

  void Start(uint64_t lineage) {
    InitialValues initial(variables_, table_, /*seed=*/1);
    for (const auto& ps : ps_) EXPECT_OK(ps->Load({lineage, 0, plan_, {}}, initial));
    StartLineage(lineage, 0);
  }

  // Starts a lineage with the values of another run, and with its state if that is given. The
  // batches are those of `first_batch` and later ones.
  absl::Status StartFrom(uint64_t lineage, const std::string& path, bool with_state = false,
                         uint64_t first_batch = 0) {
    v1::RunConfig run;
    run.set_init_from(path);
    run.set_init_state(with_state);
    first_batch_ = first_batch;
    const auto slot_names = [this](uint32_t slice) {
      return ps_[slice % ps_.size()]->slot_names(slice);
    };
    ASSIGN_OR_RETURN(const auto model,
                     InitialModel::Open(disk_, run, variables_, table_, slot_names));
    for (const auto& ps : ps_) RETURN_IF_ERROR(ps->Load({lineage, 0, plan_, {}}, *model));
    StartLineage(lineage, 0);
    return absl::OkStatus();
  }

  absl::Status Restore(uint64_t lineage, const std::string& checkpoint) {
    request_.set_checkpoint(checkpoint);
    uint64_t version = 0;
    for (const auto& ps : ps_) {
      ASSIGN_OR_RETURN(const std::unique_ptr<RestoredSlices> source,
                       RestoredSlices::Open(&disk_, request_, *ps));
      version = source->version();
      RETURN_IF_ERROR(ps->Load({lineage, version, plan_, {}}, *source));
    }
    StartLineage(lineage, version);
    return absl::OkStatus();
  }

  void Keep(uint32_t checkpoints) {
    request_.mutable_run()->mutable_checkpoint()->set_keep(checkpoints);
  }

  void Train(uint64_t version) {
    for (; version_ < version; ++version_) {
      std::mt19937_64 random(first_batch_ + version_);
      for (uint32_t slice = 0; slice < table_.size(); ++slice) Push(slice, &random);
    }
  }

  // Trains until the version, at which all slices are cut.
  void TrainAndCut(uint64_t version) {
    for (const auto& ps : ps_) EXPECT_FALSE(ps->RequestCut(version).passed);
    Train(version);
    snapshots_.clear();
    rows_.clear();
    for (const auto& ps : ps_) {
      Snapshot& snapshot = snapshots_.emplace_back();
      snapshot.version = version;
      SliceStoreEvents events;
      ps->part(0).TakeEvents(&events);
      snapshot.parts = std::move(events.cuts);
      for (const SliceStoreEvents::CutPart& part : snapshot.parts) {
        if (part.rows != nullptr) rows_[part.slice] = part.rows->ReadAll();
      }
    }
  }

  // Writes what was cut as a checkpoint and returns its name. It is published, unless the chief is
  // too slow.
  absl::StatusOr<std::string> Save(bool is_published = true) {
    const uint64_t version = snapshots_[0].version;
    v1::Manifest manifest;
    manifest.set_step(version);
    manifest.set_term(1);
    for (const v1::VariableSpec& variable : variables_) *manifest.add_variables() = variable;
    *manifest.mutable_shard_map() = request_.shard_map();
    for (size_t ps = 0; ps < ps_.size(); ++ps) {
      v1::ReportShardRequest report;
      RETURN_IF_ERROR(WriteSnapshot(disk_, static_cast<uint32_t>(ps), lineages_[ps], snapshots_[ps],
                                    SnapshotCalls(), &bases_[ps], &report));
      *manifest.add_shards() = report.file();
    }
    manifest_ = manifest;
    if (is_published) RETURN_IF_ERROR(Publish());
    return lineages_[0].GetDirectory(version);
  }

  // Publishes the checkpoint that was written last.
  absl::Status Publish() {
    CheckpointName name;
    EXPECT_TRUE(CheckpointName::Parse(lineages_[0].GetDirectory(manifest_.step()), &name));
    ASSIGN_OR_RETURN(const auto checkpoints, CheckpointDirectory::Open(disk_, kRoot));
    return checkpoints->Publish(name, manifest_);
  }

  // Expects that a checkpoint has the rows of a cut.
  void ExpectRows(const std::string& name, const std::map<uint32_t, BucketRows>& rows) const {
    ASSERT_OK_AND_ASSIGN(
        const auto checkpoint,
        Checkpoint::Open(disk_, std::string(kRoot) + "/" + name, Checkpoint::Verify::kEverything));
    for (const auto& [slice, wanted] : rows) {
      SCOPED_TRACE(name + ", slice " + std::to_string(slice));
      const v1::VariableSpec& spec = variables_[table_[slice].variable];
      const std::vector<std::string> slots = ps_[slice % ps_.size()]->slot_names(slice);
      ASSERT_OK_AND_ASSIGN(const BucketRows read,
                           checkpoint->ReadBucket(slice, MakeRowSlots(spec, slots)));
      ExpectSameRows(read, wanted);
    }
  }

  // Returns the rows that were cut, by slice.
  const std::map<uint32_t, BucketRows>& rows() const { return rows_; }

  // Returns what was cut of each slice.
  std::vector<SliceStoreEvents::CutPart> Parts() const {
    std::vector<SliceStoreEvents::CutPart> parts(table_.size());
    for (const Snapshot& snapshot : snapshots_) {
      for (const SliceStoreEvents::CutPart& part : snapshot.parts) parts[part.slice] = part;
    }
    return parts;
  }

 private:
  void StartLineage(uint64_t lineage, uint64_t version) {
    request_.mutable_identity()->set_lineage(lineage);
    version_ = version;
    lineages_.clear();
    for (const auto& ps : ps_) lineages_.push_back(SnapshotLineage::Of(request_, *ps));
  }

  void Push(uint32_t slice, std::mt19937_64* random) {
    SlicePush push;
    push.slice = slice;
    push.batch = plan_.BatchAt(version_, 0);
    push.step = version_;
    push.examples = 1;
    const uint64_t dim = table_.row_elements_of(table_[slice].variable);
    std::vector<float> gradients;
    std::vector<char> payload;
    if (table_[slice].is_bucket) {
      push.kind = ContributionKind::kRows;
      std::set<uint64_t> keys;
      const uint32_t buckets = table_.num_buckets_of(table_[slice].variable);
      for (uint32_t i = 0; i < 6 * buckets; ++i) {
        const uint64_t key = (*random)() % (40 * buckets);
        if (table_.BucketOf(table_[slice].variable, key) == slice) keys.insert(key);
      }
      const std::vector<uint64_t> rising(keys.begin(), keys.end());
      for (size_t i = 0; i < rising.size() * dim; ++i) gradients.push_back(Gradient(random));
      payload.resize(RowPayloadBytes(rising.size(), dim));
      EncodeRows({rising, gradients.data()}, dim, payload.data());
      push.data = payload.data();
      push.bytes = payload.size();
    } else {
      for (uint64_t i = 0; i < table_[slice].num_elements; ++i)
        gradients.push_back(Gradient(random));
      push.data = gradients.data();
      push.bytes = gradients.size() * sizeof(float);
    }
    EXPECT_EQ(ps_[slice % ps_.size()]->part(0).Push(push), PushOutcome::kAccepted);
  }

  static float Gradient(std::mt19937_64* random) {
    return static_cast<float>((*random)() % 1000) / 100 - 5;
  }

  FileSystem& disk_;
  const std::vector<v1::VariableSpec> variables_;
  const SliceTable table_;
  const StepPlan plan_ = StepPlan::Create({0, 0, 100000, 1, 1}).value();
  v1::LoadSlicesRequest request_;
  std::vector<std::unique_ptr<PartitionedStore>> ps_;
  std::vector<SnapshotLineage> lineages_;
  std::vector<Snapshot> snapshots_;
  std::map<uint32_t, BucketRows> rows_;
  v1::Manifest manifest_;
  std::vector<RowsBase> bases_;
  uint64_t version_ = 0;
  uint64_t first_batch_ = 0;
};

inline void ExpectSame(const Cluster& a, const Cluster& b) {
  const std::vector<SliceStoreEvents::CutPart> left = a.Parts(), right = b.Parts();
  ASSERT_EQ(left.size(), right.size());
  size_t rows = 0, counted = 0;
  for (size_t slice = 0; slice < left.size(); ++slice) {
    SCOPED_TRACE(slice);
    EXPECT_EQ(left[slice].version, right[slice].version);
    EXPECT_EQ(left[slice].value_version, right[slice].value_version);
    ASSERT_EQ(left[slice].rows == nullptr, right[slice].rows == nullptr);
    if (left[slice].rows == nullptr) {
      EXPECT_EQ(left[slice].value->data()[0], right[slice].value->data()[0]);
      continue;
    }
    const BucketRows& one = a.rows().at(static_cast<uint32_t>(slice));
    ExpectSameRows(one, b.rows().at(static_cast<uint32_t>(slice)));
    rows += one.keys.size();
    counted += one.counted_keys.size();
  }
  EXPECT_GT(rows, 0u);
  EXPECT_GT(counted, 0u);
}

// Returns the names of the checkpoints whose shards this one continues.
inline std::set<std::string> BasesOf(FileSystem& disk, const std::string& checkpoint) {
  return Checkpoint::Open(disk, std::string(kRoot) + "/" + checkpoint, Checkpoint::Verify::kIndex)
      .value()
      ->bases();
}

}  // namespace shoal

#endif  // SHOAL_PS_SNAPSHOT_TESTING_H_
