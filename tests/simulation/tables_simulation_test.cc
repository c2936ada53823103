// Tests whole runs of the real chief, ps and workers with tables under faults.
#include <cstdint>
#include <string>

#include "gtest/gtest.h"

#include "base/log.h"
#include "tests/simulation/cluster_simulation.h"

namespace shoal {
namespace {

constexpr uint64_t kSeeds = 300;

void WarnOfNothing() {
  LogOptions log;
  log.min_severity = LogSeverity::kFatal;  // Faults are what the tasks warn of.
  SetUpLog(log).IgnoreError();
}

class TablesSimulationTest : public ::testing::TestWithParam<bool> {};

TEST_P(TablesSimulationTest, EveryRowHasEveryBatchThatTouchedItOnce) {
  WarnOfNothing();
  uint64_t rows = 0, counted_keys = 0, deltas = 0, ps_killed = 0;
  for (uint64_t seed = 0; seed < kSeeds; ++seed) {
    ClusterSimulation::Options options;
    options.seed = seed;
    options.synchronous = GetParam();
    options.tables = true;
    ClusterSimulation simulation(options);
    ASSERT_EQ(simulation.Run(), "") << simulation.Describe();
    const ClusterSimulation::Counts& counts = simulation.counts();
    rows += counts.rows;
    counted_keys += counts.counted_keys;
    deltas += counts.is_delta ? 1 : 0;
    ps_killed += counts.faults[PlannedFault::kKillPs] + counts.faults[PlannedFault::kKillAll];
  }
  EXPECT_GT(rows, kSeeds);
  EXPECT_GT(counted_keys, kSeeds);
  EXPECT_GT(deltas, kSeeds / 20);
  EXPECT_GT(ps_killed, kSeeds / 10);
}

TEST_P(TablesSimulationTest, ASeedAlwaysGivesTheSameRun) {
  WarnOfNothing();
  uint64_t turns[2], messages[2];
  for (int i : {0, 1}) {
    ClusterSimulation::Options options;
    options.seed = 7;
    options.synchronous = GetParam();
    options.tables = true;
    ClusterSimulation simulation(options);
    EXPECT_EQ(simulation.Run(), "");
    turns[i] = simulation.counts().turns;
    messages[i] = simulation.counts().network.messages;
  }
  EXPECT_EQ(turns[0], turns[1]);
  EXPECT_EQ(messages[0], messages[1]);
}

INSTANTIATE_TEST_SUITE_P(Modes, TablesSimulationTest, ::testing::Values(true, false),
                         [](const auto& mode) { return mode.param ? "Sync" : "Async"; });

}  // namespace
}  // namespace shoal
