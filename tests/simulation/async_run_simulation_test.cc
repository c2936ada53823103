// An ASYNC run with its checkpoints and lines, under deaths, losses and slow disks.
#include <cstdint>

#include "gtest/gtest.h"

#include "tests/simulation/async_run_world.h"

namespace shoal {
namespace {

constexpr uint64_t kSeeds = 3000;

TEST(AsyncRunSimulationTest, EveryRunEndsWithEveryBatchOnceAndALineForEveryStep) {
  AsyncRunWorld::Counts sum;
  for (uint64_t seed = 1; seed <= kSeeds; ++seed) {
    AsyncRunWorld world(seed, {});
    ASSERT_EQ(world.Run(), "") << "seed " << seed;
    const AsyncRunWorld::Counts& counts = world.counts();
    sum.ps_deaths += counts.ps_deaths;
    sum.worker_deaths += counts.worker_deaths;
    sum.chiefs += counts.chiefs;
    sum.checkpoints += counts.checkpoints;
    sum.failed_manifests += counts.failed_manifests;
  }
  // The faults were there.
  EXPECT_GT(sum.ps_deaths, kSeeds);
  EXPECT_GT(sum.worker_deaths, kSeeds / 2);
  EXPECT_GT(sum.chiefs, kSeeds * 5 / 4);
  EXPECT_GT(sum.checkpoints, kSeeds * 3 / 2);
  EXPECT_GT(sum.failed_manifests, 0u);
}

// A broken promise must be noticed within this many runs.
constexpr uint64_t kSeedsToCatch = 6000;

bool IsCaught(const AsyncRunWorld::Broken& broken) {
  for (uint64_t seed = 1; seed <= kSeedsToCatch; ++seed) {
    if (!AsyncRunWorld(seed, broken).Run().empty()) return true;
  }
  return false;
}

TEST(AsyncRunSimulationTest, NoticesABatchThatCountsTwice) {
  AsyncRunWorld::Broken broken;
  broken.dedupe = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(AsyncRunSimulationTest, NoticesShardsThatDoNotKnowTheirBatches) {
  AsyncRunWorld::Broken broken;
  broken.applied_on_disk = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(AsyncRunSimulationTest, NoticesALoadThatIsAnsweredWithWhatCameAfterIt) {
  AsyncRunWorld::Broken broken;
  broken.loaded_steps = true;
  EXPECT_TRUE(IsCaught(broken));
}

}  // namespace
}  // namespace shoal
