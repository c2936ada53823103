// Tests whole runs of the real chief, ps and workers under faults.
#include "tests/simulation/cluster_simulation.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

#include "base/log.h"

namespace shoal {
namespace {

constexpr uint64_t kSeeds = 300;

class ClusterSimulationTest : public ::testing::TestWithParam<bool> {
 protected:
  static void SetUpTestSuite() {
    LogOptions log;
    log.min_severity = LogSeverity::kFatal;  // Faults are what the tasks warn of.
    SetUpLog(log).IgnoreError();
  }
};

TEST_P(ClusterSimulationTest, EveryRunUnderFaultsComesToTheRightEnd) {
  uint64_t faults[PlannedFault::kNumKinds] = {};
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ClusterSimulation::Options options;
    options.seed = seed;
    options.synchronous = GetParam();
    ClusterSimulation simulation(options);
    ASSERT_EQ(simulation.Run(), "") << simulation.Describe();
    for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
      faults[kind] += simulation.counts().faults[kind];
    }
  }
  for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
    EXPECT_GT(faults[kind], 0) << NameOf(static_cast<PlannedFault::Kind>(kind));
  }
}

// A step may be lost only if a worker died while it sent its contributions: there are no other
// faults.
TEST_P(ClusterSimulationTest, AfterTheEndOfAllWorkersTheLastStepIsInACheckpoint) {
  int num_runs = 0, num_saved = 0;
  for (uint64_t seed = 0; seed < 100; ++seed) {
    ClusterSimulation::Options options;
    options.seed = seed;
    options.synchronous = GetParam();
    options.allowed.assign(PlannedFault::kNumKinds, false);
    options.bad_batches = false;
    options.workers_gone_at = 1 + static_cast<double>(seed % 10) / 5;
    ClusterSimulation simulation(options);
    ASSERT_EQ(simulation.Run(), "") << simulation.Describe();
    const ClusterSimulation::Counts& counts = simulation.counts();
    if (!counts.step_without_workers.has_value()) continue;  // It had ended, or not begun.
    ++num_runs;
    if (counts.last_checkpoint >= *counts.step_without_workers) ++num_saved;
  }
  EXPECT_GE(num_runs, 50);
  EXPECT_GE(num_saved, num_runs * 9 / 10) << "of " << num_runs;
}

TEST_P(ClusterSimulationTest, ASeedAlwaysGivesTheSameRun) {
  uint64_t turns[2], messages[2];
  for (int i : {0, 1}) {
    ClusterSimulation::Options options;
    options.seed = 11;
    options.synchronous = GetParam();
    ClusterSimulation simulation(options);
    EXPECT_EQ(simulation.Run(), "");
    turns[i] = simulation.counts().turns;
    messages[i] = simulation.counts().network.messages;
  }
  EXPECT_EQ(turns[0], turns[1]);
  EXPECT_EQ(messages[0], messages[1]);
}

// Seeds that have found defects, sorted by defect.
struct NamedSeed {
  const char* name;
  bool synchronous;
  uint64_t seed;
  bool tables = false;
};

class NamedSeedTest : public ::testing::TestWithParam<NamedSeed> {};

TEST_P(NamedSeedTest, ComesToTheRightEnd) {
  LogOptions log;
  log.min_severity = LogSeverity::kFatal;
  SetUpLog(log).IgnoreError();
  ClusterSimulation::Options options;
  options.seed = GetParam().seed;
  options.synchronous = GetParam().synchronous;
  options.tables = GetParam().tables;
  ClusterSimulation simulation(options);
  EXPECT_EQ(simulation.Run(), "") << simulation.Describe();
}

constexpr NamedSeed kNamedSeeds[] = {
    {"AQuotaAnswersEveryCall", true, 149},
    {"AQuotaAnswersRegistrations", true, 197},
    {"AQuotaAnswersRegistrationsAsync", false, 197},
    {"AProxyRefusesLeases", false, 328},
    {"AProxyDoesNotKnowEvaluations", false, 417},
    {"TheChiefDiesBeforeTheFirstCheckpoint", false, 304},
    {"TheChiefDiesBeforeAnybodyHasTrained", false, 453},
    {"EverythingDiesBetweenTheLastCheckpointAndTheSummary", false, 38},
    {"APullWaitsUntilTheLeaseHasEnded", true, 223},
    // A step with a clipped gradient stood still until cluster.wait_seconds were over: the scale
    // came while the ps had no lease.
    {"AScaleComesToAPsWithoutALeaseAfterThePauseOfTheChief", true, 16448},
    {"AScaleComesToAPsWithoutALeaseAfterItsPause", true, 33334},
    // A load whose request or answer was lost took a minute to be repeated, which ended the run.
    {"ALoadIsLostWhenAPartitionEnds", true, 911},
    {"ALoadIsLostWhenAPartitionEndsAsync", false, 911},
    {"ALoadIsLostAndAProxyRefusesLoads", true, 963},
    // The final checkpoint was tried again for cluster.wait_seconds in vain: a file of the first
    // attempt, which failed at a later file, had the name already.
    {"AFullDiskFailsAtTheSecondFileOfTheFinalCheckpoint", false, 30983},
    {"AFailingDiskFailsAtTheSecondFileOfTheFinalCheckpoint", false, 26629},
    // A worker that got its place back reported what it had finished with a ps that was replaced.
    {"AWorkerComesBackAfterAPsWasReplaced", false, 117},
    // A chief resumed from a checkpoint whose lines the chief before had removed.
    {"ARollbackWhileACheckpointIsPublishedAndAllTasksDie", true, 2079},
    {"APsDiesWhileACheckpointIsPublishedAndThenAllTasksDie", true, 31797},
    // A chief published a checkpoint whose lines still waited, since the disk had been full, and
    // was killed.
    {"TheChiefIsKilledAfterItsDiskWasFull", true, 41472},
    // Seeds in which the verdict was wrong.
    {"AStopGivesAnEvaluationUp", true, 13457},
    {"APsServesUntilItsLeaseEndsAlthoughItsPlaceIsTaken", true, 10747, true},
};

INSTANTIATE_TEST_SUITE_P(Seeds, NamedSeedTest, ::testing::ValuesIn(kNamedSeeds),
                         [](const auto& seed) { return std::string(seed.param.name); });

INSTANTIATE_TEST_SUITE_P(Modes, ClusterSimulationTest, ::testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Sync" : "Async"; });

}  // namespace
}  // namespace shoal
