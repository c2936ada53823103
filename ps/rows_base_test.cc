#include "ps/rows_base.h"

#include <cstdint>
#include <memory>
#include <string>
#include <utility>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "proto/v1/checkpoint.pb.h"
#include "proto/v1/chief_service.pb.h"
#include "ps/snapshot.h"
#include "runtime/checkpoint/manifest.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/stored_rows.h"

namespace shoal {
namespace {

using ::testing::SizeIs;

Snapshot SnapshotOf(uint64_t version) {
  Snapshot snapshot;
  snapshot.version = version;
  snapshot.parts.resize(1);
  return snapshot;
}

// Damage to an older checkpoint must not make the newer ones useless without need.
TEST(RowsBaseTest, AShardContinuesABaseOnlyIfThatHasKeys) {
  for (const uint64_t num_keys : {0, 5}) {
    SCOPED_TRACE(num_keys);
    FaultyFileSystem disk;
    SnapshotLineage lineage;
    lineage.lineage = lineage.term = 1;
    lineage.root = "checkpoints";
    const Snapshot first = SnapshotOf(10);
    RowsBase base;
    EXPECT_THAT(base.PlanFor(disk, lineage, first).bases, SizeIs(0));
    v1::ShardFile file;
    file.set_name("shard-00000-of-00001.safetensors");
    file.set_bytes(5);
    const std::string directory = JoinPath(lineage.root, lineage.GetDirectory(10));
    ASSERT_OK(disk.MakeDirectory(directory));
    ASSERT_OK(WriteAtomically(disk, JoinPath(directory, file.name()), "bytes"));
    ASSERT_OK(WriteAtomically(disk, JoinPath(directory, kManifestFile), "published"));
    base.Add(lineage, first, num_keys, file);
    EXPECT_THAT(base.PlanFor(disk, lineage, SnapshotOf(20)).bases, SizeIs(num_keys == 0 ? 0 : 1));
  }
}

// A sync may take long, and a ps may have to load other rows meanwhile.
TEST(WriteSnapshotTest, RowsAreDroppedBeforeTheShardIsDurableUnlessItMayBeWrittenAgain) {
  for (const uint64_t last_version : {10, 20}) {
    SCOPED_TRACE(last_version);
    FaultyFileSystem disk;
    SnapshotLineage lineage;
    lineage.lineage = lineage.term = 1;
    lineage.last_version = last_version;
    lineage.root = "checkpoints";
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
