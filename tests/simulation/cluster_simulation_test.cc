// Whole runs of the real chief, ps and workers under faults.
#include "tests/simulation/cluster_simulation.h"

#include <cstdint>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "base/log.h"

namespace shoal {
namespace {

constexpr uint64_t kSeeds = 300;

std::vector<bool> Allowed() {
  std::vector<bool> allowed = AllFaults();
  for (const PlannedFault::Kind kind :
       {PlannedFault::kKillChief, PlannedFault::kKillAll, PlannedFault::kPausePs,
        PlannedFault::kPauseChief, PlannedFault::kPartition, PlannedFault::kCutOneWay,
        PlannedFault::kCutBothWays, PlannedFault::kWrongAnswers, PlannedFault::kFailingDisk,
        PlannedFault::kDamagedCheckpoint, PlannedFault::kStop}) {
    allowed[kind] = false;
  }
  return allowed;
}

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
    options.allowed = Allowed();
    ClusterSimulation simulation(options);
    ASSERT_EQ(simulation.Run(), "") << simulation.Describe();
    for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
      faults[kind] += simulation.counts().faults[kind];
    }
  }
  for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
    if (!Allowed()[static_cast<size_t>(kind)]) continue;
    EXPECT_GT(faults[kind], kSeeds / 50) << NameOf(static_cast<PlannedFault::Kind>(kind));
  }
}

TEST_P(ClusterSimulationTest, ASeedAlwaysGivesTheSameRun) {
  uint64_t turns[2], messages[2];
  for (int i : {0, 1}) {
    ClusterSimulation::Options options;
    options.seed = 11;
    options.synchronous = GetParam();
    options.allowed = Allowed();
    ClusterSimulation simulation(options);
    EXPECT_EQ(simulation.Run(), "");
    turns[i] = simulation.counts().turns;
    messages[i] = simulation.counts().network.messages;
  }
  EXPECT_EQ(turns[0], turns[1]);
  EXPECT_EQ(messages[0], messages[1]);
}

INSTANTIATE_TEST_SUITE_P(Modes, ClusterSimulationTest, ::testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Sync" : "Async"; });

}  // namespace
}  // namespace shoal
