#include "tests/simulation/sync_simulation.h"

#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "gtest/gtest.h"

namespace shoal {
namespace {

constexpr uint64_t kSeeds = 2000;

TEST(SyncSimulationTest, EveryRunUnderFaultsEndsAsTheSequentialOne) {
  SyncSimulation::Counts sum;
  int failed = 0;
  for (uint64_t seed = 0; seed < kSeeds && failed < 5; ++seed) {
    SyncSimulation simulation(seed, SyncBroken());
    const std::string failure = simulation.Run();
    EXPECT_EQ(failure, "") << "seed " << seed;
    if (!failure.empty()) ++failed;
    const SyncSimulation::Counts& counts = simulation.counts();
    sum.steps += counts.steps;
    sum.skipped += counts.skipped;
    sum.rollbacks += counts.rollbacks;
    sum.worker_deaths += counts.worker_deaths;
    sum.ps_deaths += counts.ps_deaths;
    sum.resumes += counts.resumes;
    sum.events += counts.events;
  }
  std::printf("%s\n",
              absl::StrCat(sum.steps, " steps, ", sum.skipped, " batches skipped, ", sum.rollbacks,
                           " rollbacks, ", sum.worker_deaths, " workers and ", sum.ps_deaths,
                           " ps died, ", sum.resumes, " resumes, ", sum.events, " events")
                  .c_str());
  EXPECT_GT(sum.skipped, 0u);
  EXPECT_GT(sum.rollbacks, 0u);
  EXPECT_GT(sum.resumes, 0u);
}

// A broken protocol must be caught within this many runs.
constexpr uint64_t kSeedsToCatch = 6000;

bool IsCaught(const SyncBroken& broken) {
  for (uint64_t seed = 0; seed < kSeedsToCatch; ++seed) {
    const std::string failure = SyncSimulation(seed, broken).Run();
    if (failure.empty()) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), failure.c_str());
    return true;
  }
  return false;
}

TEST(SyncSimulationTest, NoticesWhenRepeatedContributionsCountAgain) {
  SyncBroken broken;
  broken.store.dedupe = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(SyncSimulationTest, NoticesWhenThePreviousVersionIsNotKept) {
  SyncBroken broken;
  broken.store.previous_version = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(SyncSimulationTest, NoticesWhenLineagesAreNotChecked) {
  SyncBroken broken;
  broken.lineage = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(SyncSimulationTest, NoticesWhenWithheldBatchesAreTaken) {
  SyncBroken broken;
  broken.store.withholding = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(SyncSimulationTest, NoticesWhenBatchesAreSkippedThatSomeSlicesHave) {
  SyncBroken broken;
  broken.decisions.withhold = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(SyncSimulationTest, NoticesWhenABatchThatCannotBeDeliveredIsNotUndone) {
  SyncBroken broken;
  broken.decisions.again = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(SyncSimulationTest, NoticesWhenDeliveredBatchesAreForgotten) {
  SyncBroken broken;
  broken.decisions.done = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(SyncSimulationTest, NoticesWhenSkipsAreForgotten) {
  SyncBroken broken;
  broken.decisions.forget = true;
  EXPECT_TRUE(IsCaught(broken));
}

TEST(SyncSimulationTest, NoticesWhenOnlyTheLostPsGoesBack) {
  SyncBroken broken;
  broken.loads_only_the_lost = true;
  EXPECT_TRUE(IsCaught(broken));
}

}  // namespace
}  // namespace shoal
