// Checkpoints of runs with tables: they are written by some number of ps, and restored by others.
#include "ps/snapshot.h"

#include <algorithm>
#include <map>
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
#include "proto/v1/run_config.pb.h"
#include "ps/restored_slices.h"
#include "ps/rows_base.h"
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
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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

void ExpectSameRows(const BucketRows& one, const BucketRows& other) {
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

  // Starts a lineage with the values of another run.
  absl::Status StartFrom(uint64_t lineage, const std::string& path) {
    v1::RunConfig run;
    run.set_init_from(path);
    ASSIGN_OR_RETURN(const auto model, InitialModel::Open(disk_, run, variables_, table_));
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
      std::mt19937_64 random(version_);
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
    const BucketRows& one = a.rows().at(static_cast<uint32_t>(slice));
    ExpectSameRows(one, b.rows().at(static_cast<uint32_t>(slice)));
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
  for (uint32_t num_ps = 1; num_ps <= 8; ++num_ps) {
    SCOPED_TRACE(num_ps);
    Cluster other(&disk, num_ps);
    ASSERT_OK(other.Restore(2, name));
    other.TrainAndCut(30);
    ExpectSame(three, other);
  }
}

uint64_t BytesOf(FileSystem& disk, const std::string& checkpoint, const std::string& shard) {
  return disk.GetInfo(std::string(kRoot) + "/" + checkpoint + "/" + shard).value().size;
}

std::set<std::string> BasesOf(FileSystem& disk, const std::string& checkpoint) {
  return Checkpoint::Open(disk, std::string(kRoot) + "/" + checkpoint, Checkpoint::Verify::kIndex)
      .value()
      ->bases();
}

TEST(SnapshotTest, EachCheckpointHasTheChangesSinceTheOneBefore) {
  FaultyFileSystem disk;
  Cluster three(&disk, 3);
  three.Start(1);
  std::vector<std::string> names;
  for (uint64_t version = 40; version <= 48; ++version) {
    three.TrainAndCut(version);
    for (const uint32_t num_ps : {1, 2, 5}) {
      if (names.empty()) break;
      SCOPED_TRACE(names.back() + " on " + std::to_string(num_ps));
      Cluster other(&disk, num_ps);
      ASSERT_OK(other.Restore(2, names.back()));
      other.TrainAndCut(version);
      ExpectSame(three, other);
    }
    ASSERT_OK_AND_ASSIGN(names.emplace_back(), three.Save());
    three.ExpectRows(names.back(), three.rows());
  }
  // Three checkpoints are kept, so the fourth one after a base is a base.
  EXPECT_THAT(BasesOf(disk, names[0]), IsEmpty());
  EXPECT_THAT(BasesOf(disk, names[1]), ElementsAre(names[0]));
  EXPECT_THAT(BasesOf(disk, names[2]), ElementsAre(names[0], names[1]));
  EXPECT_THAT(BasesOf(disk, names[3]), ElementsAre(names[0], names[1], names[2]));
  EXPECT_THAT(BasesOf(disk, names[4]), IsEmpty());
  for (const std::string& name : names) EXPECT_LE(BasesOf(disk, name).size(), 3u) << name;
  // A step touches about a seventh of the rows.
  const char shard[] = "shard-00000-of-00003.safetensors";
  for (const int i : {1, 2, 3}) {
    EXPECT_LT(2 * BytesOf(disk, names[i], shard), BytesOf(disk, names[0], shard)) << i;
  }
}

TEST(SnapshotTest, ABaseFollowsWhenTheChangesAreHalfOfIt) {
  FaultyFileSystem disk;
  Cluster run(&disk, 1);
  run.Keep(100);
  run.Start(1);
  std::vector<size_t> num_bases;
  for (uint64_t version = 40; version < 60; version += 2) {
    run.TrainAndCut(version);
    ASSERT_OK_AND_ASSIGN(const std::string name, run.Save());
    num_bases.push_back(BasesOf(disk, name).size());
  }
  // Two steps touch about a quarter of the rows.
  EXPECT_EQ(std::count(num_bases.begin(), num_bases.end(), 0u), 5) << num_bases.size();
  run.TrainAndCut(90);
  ASSERT_OK_AND_ASSIGN(const std::string name, run.Save());
  EXPECT_THAT(BasesOf(disk, name), IsEmpty());
}

// Training continues while a snapshot waits to be written.
TEST(SnapshotTest, AShardHasTheRowsOfItsVersionWheneverItIsWritten) {
  FaultyFileSystem disk;
  Cluster two(&disk, 2);
  two.Start(1);
  for (uint64_t version = 20; version <= 60; version += 4) {
    two.TrainAndCut(version);
    const std::map<uint32_t, BucketRows> rows = two.rows();
    two.Train(version + 3);
    ASSERT_OK_AND_ASSIGN(const std::string name, two.Save());
    two.ExpectRows(name, rows);
  }
}

// A shard continues only checkpoints that cannot be removed before it is published itself.
TEST(SnapshotTest, AShardContinuesPublishedOnes) {
  FaultyFileSystem disk;
  Cluster run(&disk, 2);
  run.Start(1);
  run.TrainAndCut(40);
  ASSERT_OK_AND_ASSIGN(const std::string base, run.Save(/*is_published=*/false));
  run.TrainAndCut(41);
  ASSERT_OK_AND_ASSIGN(const std::string second, run.Save());
  EXPECT_THAT(BasesOf(disk, second), IsEmpty());
  run.TrainAndCut(42);
  ASSERT_OK_AND_ASSIGN(const std::string third, run.Save(/*is_published=*/false));
  run.TrainAndCut(43);
  ASSERT_OK_AND_ASSIGN(const std::string fourth, run.Save());
  EXPECT_THAT(BasesOf(disk, fourth), ElementsAre(second));
  run.ExpectRows(fourth, run.rows());
  run.TrainAndCut(44);
  ASSERT_OK_AND_ASSIGN(const std::string fifth, run.Save());
  EXPECT_THAT(BasesOf(disk, fifth), ElementsAre(second, fourth));
  run.ExpectRows(fifth, run.rows());
}

// Checkpoints are made, published late or never, and removed, in random order. Every one that is
// listed can be restored, also after a power cut at any moment.
TEST(SnapshotTest, EveryKeptCheckpointCanBeRestored) {
  for (uint32_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    const uint32_t keep = 1 + seed % 4;
    FaultyFileSystem disk;
    Cluster run(&disk, 1 + seed % 3);
    run.Keep(keep);
    run.Start(1);
    std::map<std::string, std::map<uint32_t, BucketRows>> rows;
    ASSERT_OK_AND_ASSIGN(const auto directory, CheckpointDirectory::Open(disk, kRoot));
    const int cut_at =
        seed < 10 ? -1 : disk.faults().num_changes() + static_cast<int>(random() % 700);
    if (cut_at >= 0) disk.faults().FailFrom(cut_at, absl::UnavailableError("power cut"));
    bool is_unpublished = false;
    for (uint64_t version = 40; version < 58; ++version) {
      // The checkpoint before this one may be published while this one is written.
      run.TrainAndCut(version);
      if (is_unpublished && random() % 2 == 0) run.Publish().IgnoreError();
      const bool is_published = random() % 3 != 0;
      const absl::StatusOr<std::string> name = run.Save(is_published);
      EXPECT_TRUE(name.ok() || cut_at >= 0) << name.status();
      if (!name.ok()) break;
      rows[*name] = run.rows();
      is_unpublished = !is_published;
      if (random() % 2 == 0) directory->Prune(static_cast<int>(keep)).IgnoreError();
    }
    disk.faults().StopFailing();
    if (cut_at >= 0) disk.Crash();
    ASSERT_OK_AND_ASSIGN(const auto after, CheckpointDirectory::Open(disk, kRoot));
    ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointName> names, after->List());
    for (const CheckpointName& name : names) {
      if (rows.count(name.ToString()) > 0) run.ExpectRows(name.ToString(), rows[name.ToString()]);
    }
    ASSERT_OK(after->Prune(static_cast<int>(keep)));
    ASSERT_OK_AND_ASSIGN(const std::vector<CheckpointName> left, after->List());
    EXPECT_EQ(left.size(), std::min<size_t>(names.size(), keep));
    for (const CheckpointName& name : left) {
      EXPECT_OK(Cluster(&disk, 2).Restore(2, name.ToString()));
    }
  }
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
  EXPECT_TRUE(FileExists(disk, std::string(kRoot) + "/" + names[1]));
  ASSERT_OK(Cluster(&disk, 1).Restore(2, names[2]));
  run.ExpectRows(names[2], run.rows());
  // The run continues with changes to the same base, and then with a base.
  run.TrainAndCut(43);
  ASSERT_OK_AND_ASSIGN(names.emplace_back(), run.Save());
  ASSERT_OK(directory->Prune(1));
  ASSERT_OK(Cluster(&disk, 1).Restore(3, names[3]));
  EXPECT_TRUE(FileExists(disk, std::string(kRoot) + "/" + names[0]));
  run.TrainAndCut(44);
  ASSERT_OK_AND_ASSIGN(names.emplace_back(), run.Save());
  ASSERT_OK(directory->Prune(1));
  ASSERT_OK(Cluster(&disk, 1).Restore(3, names[4]));
  for (int i = 0; i < 4; ++i) EXPECT_FALSE(FileExists(disk, std::string(kRoot) + "/" + names[i]));
}

// Another run starts with the rows of a checkpoint that has changes only, on any number of ps.
TEST(SnapshotTest, AnotherRunStartsWithTheRowsOfChanges) {
  FaultyFileSystem disk;
  Cluster run(&disk, 3);
  run.Start(1);
  std::string name;
  for (const uint64_t version : {40, 41, 42}) {
    run.TrainAndCut(version);
    ASSERT_OK_AND_ASSIGN(name, run.Save());
  }
  ASSERT_THAT(BasesOf(disk, name), SizeIs(2));
  std::map<uint32_t, BucketRows> first;  // the rows that the first number of ps has
  for (const uint32_t num_ps : {1, 4}) {
    Cluster tuned(&disk, num_ps);
    ASSERT_OK(tuned.StartFrom(2, std::string(kRoot) + "/" + name));
    tuned.TrainAndCut(1);
    if (first.empty()) first = tuned.rows();
    for (const auto& [slice, rows] : tuned.rows()) {
      SCOPED_TRACE(slice);
      ExpectSameRows(rows, first.at(slice));
      const BucketRows& given = run.rows().at(slice);
      const size_t given_floats = given.rows.size() / given.keys.size();
      const size_t floats = rows.rows.size() / rows.keys.size();
      ASSERT_EQ(floats, given_floats);
      for (size_t i = 0; i < given.keys.size(); ++i) {
        const auto place = std::lower_bound(rows.keys.begin(), rows.keys.end(), given.keys[i]);
        ASSERT_TRUE(place != rows.keys.end() && *place == given.keys[i]) << given.keys[i];
        const size_t r = static_cast<size_t>(place - rows.keys.begin());
        // Rows that the first step did not touch are as they were given.
        if (rows.touched[r] == 0) {
          EXPECT_EQ(rows.rows[r * floats], given.rows[i * floats]);
        }
      }
      EXPECT_GT(std::count(rows.touched.begin(), rows.touched.end(), 0u), 0);
    }
  }
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
  EXPECT_THAT(restore(variables),
              StatusIs(absl::StatusCode::kFailedPrecondition,
                       HasSubstr("has a table of 7 buckets, the model has no table")));
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
