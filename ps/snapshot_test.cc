// Checkpoints of runs with tables: they are written by some number of ps, and restored by others.
#include "ps/snapshot.h"

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/status_matchers.h"
#include "ps/snapshot_testing.h"
#include "runtime/checkpoint/checkpoint.h"
#include "runtime/checkpoint/checkpoint_directory.h"
#include "runtime/tables/bucket_rows.h"

namespace shoal {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

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
