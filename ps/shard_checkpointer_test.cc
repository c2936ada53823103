#include "ps/shard_checkpointer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/time/clock.h"
#include "absl/time/time.h"

#include "base/faulty_file_system.h"
#include "runtime/rpc/fake_chief.h"
#include "runtime/tables/row_slabs.h"
#include "runtime/tables/stored_rows.h"
#include "runtime/variables/version_buffer.h"

namespace shoal {
namespace {

using ::testing::HasSubstr;

// One ps with one slice of 16 floats.
class ShardCheckpointerTest : public ::testing::Test {
 protected:
  ShardCheckpointerTest()
      : checkpointer_(
            {0, &disk_, chief_.client(), &clock_, [] { return v1::Identity(); }, &metrics_}) {
    EXPECT_TRUE(disk_.MakeDirectory("checkpoints").ok());
    checkpointer_.StartLineage(LineageOf(1));
  }
  ~ShardCheckpointerTest() override { disk_.Release(); }

  static SnapshotLineage LineageOf(uint64_t number) {
    SnapshotLineage lineage;
    lineage.lineage = number;
    lineage.term = 1;
    lineage.root = "checkpoints";
    lineage.variables.resize(1);
    lineage.variables[0].set_name("w");
    lineage.variables[0].add_shape(16);
    lineage.slots.resize(1);
    lineage.slices.resize(1);
    lineage.slices[0].num_elements = 16;
    lineage.first_slice = {0};
    return lineage;
  }

  // Cuts the slice; a snapshot with `rows` also has the cut of a bucket.
  void Cut(uint64_t version, const std::shared_ptr<StoredRows>& rows = nullptr) {
    std::vector<SliceStoreEvents::CutPart> parts(1);
    parts[0].cut = parts[0].version = parts[0].value_version = version;
    parts[0].value = pool_.Acquire();
    if (rows != nullptr) parts[0].rows = std::make_shared<BucketCut>(rows, version);
    parts[0].completes_cut = true;
    checkpointer_.AddParts(&parts);
  }

  FaultyFileSystem disk_;
  FakeChief chief_;
  RealClock clock_;
  PsMetrics metrics_;
  VersionBufferPool pool_{16};
  ShardCheckpointer checkpointer_;
};

// A slow disk once made each cut keep a copy of all variables in memory, without a limit.
TEST_F(ShardCheckpointerTest, ADiskThatHangsHoldsAsMuchMemoryAfterManyCutsAsAfterThree) {
  disk_.Hold();
  for (uint64_t version = 1; version <= 200; ++version) Cut(version);
  EXPECT_LE(pool_.num_buffers(), 3u);
  EXPECT_EQ(metrics_.shard_failures.value(), 198u);
  // The chief is notified of dropped snapshots while the disk still hangs.
  chief_.WaitUntil(
      [this] { return !chief_.shards.empty() && chief_.shards.back().version() == 199; });
  EXPECT_THAT(chief_.shards.back().error(), HasSubstr("superseded by step 200"));
  disk_.Release();
  chief_.WaitUntil([this] { return chief_.shards.back().version() == 200; });
  EXPECT_EQ(chief_.shards.back().error(), "");
  EXPECT_TRUE(disk_.GetInfo("checkpoints/ckpt-200-1-0000000000000001").ok());
}

TEST_F(ShardCheckpointerTest, AShardWhoseReportMetAnInternalErrorIsReportedAgain) {
  chief_.SetFailure(absl::InternalError("from a proxy"));
  Cut(1);
  chief_.WaitUntil([this] { return chief_.calls >= 2; });
  chief_.SetFailure(absl::OkStatus());
  chief_.WaitUntil([this] { return chief_.shards.size() == 1; });
  EXPECT_EQ(chief_.shards[0].version(), 1u);
  EXPECT_NE(chief_.shards[0].file().name(), "");
}

// A cut keeps all rows of its tables, so a ps that loads others would need twice the memory.
TEST_F(ShardCheckpointerTest, TheCutsOfALineageAreForgottenBeforeTheNextOneIsLoaded) {
  disk_.Hold();
  Cut(1);
  while (!checkpointer_.is_writing()) absl::SleepFor(absl::Milliseconds(1));
  Cut(2);
  checkpointer_.EndLineage();
  disk_.Release();
  checkpointer_.StartLineage(LineageOf(2));
  Cut(3);
  chief_.WaitUntil([this] { return chief_.shards.size() == 1; });
  EXPECT_EQ(chief_.shards[0].version(), 3u);
  EXPECT_EQ(chief_.shards[0].error(), "");
  const std::string shard = "/shard-00000-of-00001.safetensors";
  EXPECT_TRUE(disk_.GetInfo("checkpoints/ckpt-3-1-0000000000000002" + shard).ok());
  EXPECT_FALSE(disk_.GetInfo("checkpoints/ckpt-1-1-0000000000000001" + shard).ok());
  EXPECT_EQ(metrics_.shard_failures.value(), 0u);
}

TEST_F(ShardCheckpointerTest, ALoadWaitsUntilTheRowsOfAForgottenCutHaveLeftTheMemory) {
  const auto pool = std::make_shared<SlabPool>(2);
  auto rows = std::make_shared<StoredRows>(pool, /*idle_updates=*/0);
  disk_.Hold();
  Cut(1, rows);
  const std::weak_ptr<StoredRows> old = rows;
  rows.reset();
  while (!checkpointer_.is_writing()) absl::SleepFor(absl::Milliseconds(1));
  checkpointer_.EndLineage();
  EXPECT_TRUE(absl::IsUnknown(checkpointer_.AwaitRows(absl::Milliseconds(1))));
  EXPECT_FALSE(old.expired());
  disk_.Release();
  EXPECT_TRUE(checkpointer_.AwaitRows(absl::InfiniteDuration()).ok());
  EXPECT_TRUE(old.expired());
}

TEST_F(ShardCheckpointerTest, ALoadDoesNotWaitForDenseValues) {
  disk_.Hold();
  Cut(1);
  while (!checkpointer_.is_writing()) absl::SleepFor(absl::Milliseconds(1));
  checkpointer_.EndLineage();
  EXPECT_TRUE(checkpointer_.AwaitRows(absl::InfiniteDuration()).ok());
  EXPECT_TRUE(checkpointer_.is_writing());
}

}  // namespace
}  // namespace shoal
