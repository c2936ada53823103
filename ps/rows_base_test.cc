#include "ps/rows_base.h"

#include <cstdint>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "base/status_matchers.h"
#include "proto/v1/checkpoint.pb.h"
#include "ps/snapshot.h"
#include "runtime/checkpoint/manifest.h"

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

}  // namespace
}  // namespace shoal
