// ASYNC under loss, repetition, reordering, delay, and deaths of workers, ps and the chief: every
// batch is applied exactly once to every slice, and every epoch accounts for all of its batches.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"

#include "tests/simulation/async_world.h"

namespace shoal {
namespace {

constexpr uint64_t kNumSeeds = 2000;

TEST(AsyncSimulationTest, EveryBatchIsAppliedExactlyOnceToEverySlice) {
  AsyncWorld::Counts total;
  for (uint64_t seed = 1; seed <= kNumSeeds; ++seed) {
    AsyncWorld world(seed, {});
    ASSERT_EQ(world.Run(), "") << "seed " << seed;
    total.worker_deaths += world.counts().worker_deaths;
    total.ps_deaths += world.counts().ps_deaths;
    total.chief_deaths += world.counts().chief_deaths;
    total.masked_leases += world.counts().masked_leases;
    total.duplicates += world.counts().duplicates;
    total.refusals += world.counts().refusals;
    total.skips += world.counts().skips;
    total.evaluations += world.counts().evaluations;
    total.cuts += world.counts().cuts;
    total.events += world.counts().events;
  }
  // The faults were there.
  EXPECT_GT(total.worker_deaths, kNumSeeds / 2);
  EXPECT_GT(total.ps_deaths, kNumSeeds / 4);
  EXPECT_GT(total.chief_deaths, kNumSeeds / 20);
  EXPECT_GT(total.masked_leases, kNumSeeds);
  EXPECT_GT(total.duplicates, kNumSeeds);
  EXPECT_GT(total.refusals, kNumSeeds);
  EXPECT_GT(total.skips, kNumSeeds / 20);
  EXPECT_GT(total.evaluations, kNumSeeds);
  RecordProperty("events", std::to_string(total.events));
}

// How many of the first seeds fail when a promise is broken.
int NumCaught(const AsyncWorld::Broken& broken, uint64_t num_seeds) {
  int caught = 0;
  for (uint64_t seed = 1; seed <= num_seeds; ++seed) {
    if (!AsyncWorld(seed, broken).Run().empty()) ++caught;
  }
  return caught;
}

TEST(AsyncSimulationTest, WithoutDedupeBatchesAreDoubled) {
  AsyncWorld::Broken broken;
  broken.dedupe = true;
  EXPECT_GT(NumCaught(broken, 50), 25);
}

TEST(AsyncSimulationTest, WithoutReissueBatchesAreLost) {
  AsyncWorld::Broken broken;
  broken.reissue = true;
  EXPECT_GT(NumCaught(broken, 100), 10);
}

TEST(AsyncSimulationTest, WithoutAppliedSetsInSnapshotsBatchesAreDoubled) {
  AsyncWorld::Broken broken;
  broken.applied_on_disk = true;
  EXPECT_GT(NumCaught(broken, 100), 10);
}

TEST(AsyncSimulationTest, WithoutCallNumbersLateReportsLoseBatches) {
  AsyncWorld::Broken broken;
  broken.call_numbers = true;
  EXPECT_GT(NumCaught(broken, 1000), 0);
}

}  // namespace
}  // namespace shoal
