#include "ps/rows_base.h"

#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/mutex.h"
#include "base/status_matchers.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/chief_service.pb.h"
#include "ps/snapshot.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/stored_rows.h"

namespace shoal {
namespace {

using ::testing::IsEmpty;
using ::testing::SizeIs;

Snapshot SnapshotOf(uint64_t version) {
  Snapshot snapshot;
  snapshot.version = version;
  snapshot.parts.resize(1);
  return snapshot;
}

SnapshotLineage Lineage() {
  SnapshotLineage lineage;
  lineage.lineage = lineage.term = 1;
  lineage.root = "checkpoints";
  return lineage;
}

// Writes a checkpoint with one shard and its manifest; returns the shard's file.
v1::ShardFile PublishedShard(FaultyFileSystem* disk, const SnapshotLineage& lineage,
                             uint64_t step) {
  v1::ShardFile file;
  file.set_name("shard-00000-of-00001.safetensors");
  file.set_bytes(5);
  const std::string directory = JoinPath(lineage.root, lineage.GetDirectory(step));
  EXPECT_OK(disk->MakeDirectory(directory));
  EXPECT_OK(WriteAtomically(*disk, JoinPath(directory, file.name()), "bytes"));
  EXPECT_OK(WriteAtomically(*disk, JoinPath(directory, kManifestFile), "published"));
  return file;
}

// Damage to an older checkpoint must not make the newer ones useless without need.
TEST(RowsBaseTest, AShardContinuesABaseOnlyIfThatHasKeys) {
  for (const uint64_t num_keys : {0, 5}) {
    SCOPED_TRACE(num_keys);
    FaultyFileSystem disk;
    const SnapshotLineage lineage = Lineage();
    const Snapshot first = SnapshotOf(10);
    RowsBase base;
    EXPECT_THAT(base.PlanFor(disk, lineage, first).bases, SizeIs(0));
    base.Add(lineage, first, num_keys, PublishedShard(&disk, lineage, 10));
    EXPECT_THAT(base.PlanFor(disk, lineage, SnapshotOf(20)).bases, SizeIs(num_keys == 0 ? 0 : 1));
  }
}

// The plan of a shard has no keys: those of all buckets would take half as much memory as the index
// of the tables, which a full ps does not have.
TEST(RowsBaseTest, APlanCountsTheChangesAndTheWriterSelectsThem) {
  FaultyFileSystem disk;
  const SnapshotLineage lineage = Lineage();
  auto rows = std::make_shared<StoredRows>(std::make_shared<SlabPool>(2), /*idle_updates=*/0);
  const auto touch = [&rows](uint64_t key, uint64_t version) {
    MutexLock lock(&rows->mutex);
    ++rows->num_rows;
    rows->index.Insert(key, rows->slabs.Take(), StoredRows::StampOf(version));
  };
  const auto cut = [&rows](uint64_t version) {
    Snapshot snapshot = SnapshotOf(version);
    snapshot.parts[0].version = version;
    snapshot.parts[0].rows = std::make_shared<BucketCut>(rows, version);
    return snapshot;
  };
  for (uint64_t key = 0; key < 100; ++key) touch(key, 1 + key % 10);
  RowsBase base;
  const Snapshot first = cut(10);
  EXPECT_THAT(base.PlanFor(disk, lineage, first).changes, IsEmpty());
  base.Add(lineage, first, 100, PublishedShard(&disk, lineage, 10));
  for (uint64_t key = 100; key < 130; ++key) touch(key, 15);
  const RowsBase::Plan plan = base.PlanFor(disk, lineage, cut(20));
  ASSERT_THAT(plan.changes, SizeIs(1));
  static_assert(std::is_trivially_copyable_v<RowsBase::Changes>, "it has no list of keys");
  EXPECT_EQ(plan.changes.at(0).since, 10u);
  EXPECT_EQ(plan.changes.at(0).size.rows, 30u);
  EXPECT_EQ(plan.changes.at(0).size.counted, 0u);
}

// A sync may take long, and a ps may have to load other rows meanwhile.
TEST(WriteSnapshotTest, RowsAreDroppedBeforeTheShardIsDurableUnlessItMayBeWrittenAgain) {
  for (const uint64_t last_version : {10, 20}) {
    SCOPED_TRACE(last_version);
    FaultyFileSystem disk;
    SnapshotLineage lineage = Lineage();
    lineage.last_version = last_version;
    lineage.variables.resize(1);
    lineage.variables[0].set_name("item");
    lineage.variables[0].add_shape(2);
    lineage.slots.resize(1);
    lineage.slices.resize(1);
    lineage.slices[0].is_bucket = true;
    lineage.first_slice = {0};
    auto rows = std::make_shared<StoredRows>(std::make_shared<SlabPool>(2), /*idle_updates=*/0);
    const std::weak_ptr<StoredRows> kept = rows;
    Snapshot snapshot = SnapshotOf(10);
    snapshot.parts[0].rows = std::make_shared<BucketCut>(std::move(rows), 10);
    const std::string shard = JoinPath(JoinPath(lineage.root, lineage.GetDirectory(10)),
                                       "shard-00000-of-00001.safetensors");
    int num_calls = 0;
    SnapshotCalls calls;
    calls.on_rows_dropped = [&] {
      ++num_calls;
      EXPECT_TRUE(kept.expired());
      EXPECT_EQ(FileExists(disk, shard), last_version == 10);
    };
    RowsBase base;
    v1::ReportShardRequest report;
    ASSERT_OK(WriteSnapshot(disk, 0, lineage, snapshot, calls, &base, &report));
    EXPECT_EQ(num_calls, 1);
    EXPECT_TRUE(FileExists(disk, shard));
  }
}

}  // namespace
}  // namespace shoal
