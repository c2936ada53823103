// Checkpoints of runs with tables: they are written by some number of ps, and restored by others.
#include "ps/snapshot.h"

#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "proto/v1/chief_service.pb.h"
#include "proto/v1/parameter_service.pb.h"
#include "ps/restored_slices.h"
#include "ps/rows_base.h"
#include "runtime/checkpoint/bucket_tensors.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/plan/slice_table.h"
#include "runtime/plan/step_plan.h"
#include "runtime/variables/initial_values.h"
#include "runtime/variables/partitioned_store.h"
#include "runtime/variables/row_payload.h"
#include "runtime/variables/slice_store.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

constexpr char kRoot[] = "checkpoints";
constexpr uint64_t kSliceBytes = 64;

v1::VariableSpec Spec(const std::string& name, int64_t size) {
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
std::vector<v1::VariableSpec> TestVariables() {
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

  absl::Status Restore(uint64_t lineage, const std::string& checkpoint) {
    request_.set_checkpoint(checkpoint);
    restored_ = checkpoint;
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

  // Trains until the version, at which all slices are cut.
  void TrainAndCut(uint64_t version) {
    for (const auto& ps : ps_) EXPECT_FALSE(ps->RequestCut(version).passed);
    for (; version_ < version; ++version_) {
      std::mt19937_64 random(version_);
      for (uint32_t slice = 0; slice < table_.size(); ++slice) Push(slice, &random);
    }
    snapshots_.clear();
    for (const auto& ps : ps_) {
      Snapshot& snapshot = snapshots_.emplace_back();
      snapshot.version = version;
      SliceStoreEvents events;
      ps->part(0).TakeEvents(&events);
      snapshot.parts = std::move(events.cuts);
    }
  }

  // Writes what was cut as a checkpoint and returns its name.
  absl::StatusOr<std::string> Save() {
    v1::Manifest manifest;
    manifest.set_step(version_);
    manifest.set_term(1);
    for (const v1::VariableSpec& variable : variables_) *manifest.add_variables() = variable;
    *manifest.mutable_shard_map() = request_.shard_map();
    for (size_t ps = 0; ps < ps_.size(); ++ps) {
      v1::ReportShardRequest report;
      RETURN_IF_ERROR(WriteSnapshot(disk_, static_cast<uint32_t>(ps), lineages_[ps], snapshots_[ps],
                                    &bases_[ps], &report));
      *manifest.add_shards() = report.file();
    }
    CheckpointName name;
    const std::string directory = lineages_[0].DirectoryOf(version_);
    EXPECT_TRUE(CheckpointName::Parse(directory, &name));
    ASSIGN_OR_RETURN(const auto checkpoints, CheckpointDirectory::Open(disk_, kRoot));
    RETURN_IF_ERROR(checkpoints->Publish(name, manifest));
    return directory;
  }

  // Returns what was cut of each slice.
  std::vector<SliceStoreEvents::CutPart> Parts() const {
    std::vector<SliceStoreEvents::CutPart> parts(table_.size());
    for (const Snapshot& snapshot : snapshots_) {
      for (const SliceStoreEvents::CutPart& part : snapshot.parts) parts[part.slice] = part;
    }
    return parts;
  }

  // Compares what was cut with the rows that the cluster `other` has restored from.
  void ExpectSameRowsAs(const Cluster& other) const {
    const std::vector<SliceStoreEvents::CutPart> parts = Parts();
    for (uint32_t slice = 0; slice < parts.size(); ++slice) {
      if (parts[slice].rows == nullptr) continue;
      ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                           Checkpoint::Open(disk_, std::string(kRoot) + "/" + other.restored_,
                                            Checkpoint::Verify::kIndex));
      const v1::VariableSpec& spec = variables_[table_[slice].variable];
      ASSERT_OK_AND_ASSIGN(
          const BucketRows rows,
          checkpoint->ReadBucket(slice,
                                 RowSlotsOf(spec, ps_[slice % ps_.size()]->slot_names(slice))));
      EXPECT_EQ(rows.keys, parts[slice].rows->keys) << slice;
      EXPECT_EQ(rows.touched, parts[slice].rows->touched) << slice;
      EXPECT_EQ(rows.rows, parts[slice].rows->rows) << slice;
      EXPECT_EQ(rows.counted_keys, parts[slice].rows->counted_keys) << slice;
      EXPECT_EQ(rows.counts, parts[slice].rows->counts) << slice;
    }
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
  std::vector<RowsBase> bases_;
  uint64_t version_ = 0;
  std::string restored_;
};

void ExpectSame(const Cluster& a, const Cluster& b) {
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
    const BucketRows &one = *left[slice].rows, &other = *right[slice].rows;
    EXPECT_EQ(one.keys, other.keys);
    EXPECT_EQ(one.touched, other.touched);
    EXPECT_EQ(one.rows, other.rows);
    EXPECT_EQ(one.counted_keys, other.counted_keys);
    EXPECT_EQ(one.counts, other.counts);
    rows += one.keys.size();
    counted += one.counted_keys.size();
  }
  EXPECT_GT(rows, 0u);
  EXPECT_GT(counted, 0u);
}

TEST(SnapshotTest, TablesOfThreePsAreRestoredOntoAnyNumber) {
  FaultyFileSystem disk;
  Cluster three(&disk, 3);
  three.Start(1);
  three.TrainAndCut(20);
  ASSERT_OK_AND_ASSIGN(const std::string name, three.Save());
  three.TrainAndCut(30);
  for (const uint32_t num_ps : {1, 2, 5}) {
    Cluster other(&disk, num_ps);
    ASSERT_OK(other.Restore(2, name));
    other.TrainAndCut(30);
    ExpectSame(three, other);
  }
}

uint64_t BytesOf(FileSystem& disk, const std::string& checkpoint, const std::string& shard) {
  return disk.GetInfo(std::string(kRoot) + "/" + checkpoint + "/" + shard).value().size;
}

TEST(SnapshotTest, LaterCheckpointsHaveChangesUntilTheyAreHalfOfTheRows) {
  FaultyFileSystem disk;
  Cluster three(&disk, 3);
  three.Start(1);
  std::vector<std::string> names;
  std::set<std::string> bases;  // of the newest
  int num_with_rows = 0, num_with_changes = 0;
  for (uint64_t version = 40; version <= 54; version += 2) {
    three.TrainAndCut(version);
    ASSERT_OK_AND_ASSIGN(names.emplace_back(), three.Save());
    ASSERT_OK_AND_ASSIGN(const auto checkpoint,
                         Checkpoint::Open(disk, std::string(kRoot) + "/" + names.back(),
                                          Checkpoint::Verify::kEverything));
    bases = checkpoint->bases();
    ++(bases.empty() ? num_with_rows : num_with_changes);
    for (const uint32_t num_ps : {1, 2, 5}) {
      SCOPED_TRACE(names.back() + " on " + std::to_string(num_ps));
      Cluster other(&disk, num_ps);
      ASSERT_OK(other.Restore(2, names.back()));
      three.ExpectSameRowsAs(other);
    }
  }
  EXPECT_GT(num_with_rows, 0);
  EXPECT_GT(num_with_changes, 1);
  EXPECT_LT(BytesOf(disk, names[1], "shard-00000-of-00003.safetensors"),
            BytesOf(disk, names[0], "shard-00000-of-00003.safetensors"));
}

TEST(SnapshotTest, RetentionKeepsTheFilesThatACheckpointNeeds) {
  FaultyFileSystem disk;
  Cluster run(&disk, 2);
  run.Start(1);
  std::vector<std::string> names;
  for (const uint64_t version : {40, 41, 42}) {
    run.TrainAndCut(version);
    ASSERT_OK_AND_ASSIGN(names.emplace_back(), run.Save());
  }
  ASSERT_OK_AND_ASSIGN(const auto directory, CheckpointDirectory::Open(disk, kRoot));
  ASSERT_OK(directory->Prune(1));
  ASSERT_OK_AND_ASSIGN(const auto kept, directory->List());
  ASSERT_EQ(kept.size(), 1u);
  EXPECT_EQ(kept[0].step, 42u);
  EXPECT_TRUE(FileExists(disk, std::string(kRoot) + "/" + names[0]));
  EXPECT_FALSE(FileExists(disk, std::string(kRoot) + "/" + names[1]));
  Cluster other(&disk, 1);
  ASSERT_OK(other.Restore(2, names[2]));
  run.ExpectSameRowsAs(other);
  // The run continues with changes to the same base.
  run.TrainAndCut(43);
  ASSERT_OK_AND_ASSIGN(const std::string newest, run.Save());
  ASSERT_OK(directory->Prune(1));
  ASSERT_OK(Cluster(&disk, 1).Restore(3, newest));
  EXPECT_FALSE(FileExists(disk, std::string(kRoot) + "/" + names[2]));
}

TEST(SnapshotTest, ADamagedBaseIsThatOfAllCheckpointsThatNeedIt) {
  FaultyFileSystem disk;
  Cluster run(&disk, 1);
  run.Start(1);
  run.TrainAndCut(40);
  ASSERT_OK_AND_ASSIGN(const std::string older, run.Save());
  run.Start(2);  // The next lineage begins with a base of its own.
  run.TrainAndCut(50);
  ASSERT_OK_AND_ASSIGN(const std::string base, run.Save());
  run.TrainAndCut(51);
  ASSERT_OK(run.Save().status());
  ASSERT_OK(disk.Remove(std::string(kRoot) + "/" + base + "/shard-00000-of-00001.safetensors"));
  ASSERT_OK_AND_ASSIGN(const auto directory, CheckpointDirectory::Open(disk, kRoot));
  std::vector<std::string> rejected;
  ASSERT_OK_AND_ASSIGN(const auto newest,
                       directory->OpenLatestValid(Checkpoint::Verify::kIndex, &rejected));
  EXPECT_EQ(newest->manifest().step(), 40u);
  ASSERT_EQ(rejected.size(), 2u);
  EXPECT_THAT(rejected[0], HasSubstr(base));
  // A base that is gone serves no more.
  run.TrainAndCut(52);
  ASSERT_OK_AND_ASSIGN(const std::string later, run.Save());
  EXPECT_OK(Cluster(&disk, 1).Restore(3, later));
}

TEST(SnapshotTest, TablesThatDoNotFitTheCheckpointAreRefused) {
  FaultyFileSystem disk;
  Cluster saved(&disk, 2);
  saved.Start(1);
  saved.TrainAndCut(5);
  ASSERT_OK_AND_ASSIGN(const std::string name, saved.Save());
  const auto restore = [&](const std::vector<v1::VariableSpec>& variables) {
    return Cluster(&disk, 1, variables).Restore(2, name);
  };
  std::vector<v1::VariableSpec> variables = TestVariables();
  variables[1].mutable_table()->set_buckets(8);
  EXPECT_THAT(restore(variables),
              StatusIs(absl::StatusCode::kFailedPrecondition, HasSubstr("set table.buckets to 7")));
  variables = TestVariables();
  variables[1].set_shape(0, 4);
  EXPECT_THAT(restore(variables), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("has variable item of shape [3]")));
  variables = TestVariables();
  variables[1].mutable_table()->mutable_optimizer()->mutable_adagrad();
  EXPECT_THAT(restore(variables), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("train with that optimizer")));
  variables = TestVariables();
  variables[2].mutable_table()->set_rowwise(false);
  EXPECT_THAT(restore(variables), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("train with that optimizer")));
  variables = TestVariables();
  variables[1].clear_table();
  EXPECT_THAT(restore(variables), StatusIs(absl::StatusCode::kFailedPrecondition,
                                           HasSubstr("item as a table of 7 buckets")));
}

TEST(SnapshotTest, DamageToATableIsFound) {
  FaultyFileSystem disk;
  Cluster run(&disk, 1);
  run.Start(1);
  run.TrainAndCut(5);
  ASSERT_OK_AND_ASSIGN(const std::string name, run.Save());
  const std::string path = std::string(kRoot) + "/" + name + "/shard-00000-of-00001.safetensors";
  ASSERT_OK_AND_ASSIGN(std::string bytes, ReadFile(disk, path, 1 << 20));
  bytes.back() = static_cast<char>(bytes.back() ^ 1);
  ASSERT_OK_AND_ASSIGN(const auto file, disk.Create(path));
  ASSERT_OK(file->Append(bytes));
  ASSERT_OK(file->Close());
  EXPECT_THAT(Cluster(&disk, 1).Restore(2, name),
              StatusIs(absl::StatusCode::kDataLoss, HasSubstr("damaged")));
}

}  // namespace
}  // namespace shoal
