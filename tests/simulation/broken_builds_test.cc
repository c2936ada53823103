// Tests that the simulation detects every program that violates a rule (break.py) within 1,000
// runs.
#include <cctype>
#include <cstdint>
#include <cstdio>
#include <string>

#include "gtest/gtest.h"

#include "base/log.h"
#include "tests/simulation/broken.h"
#include "tests/simulation/cluster_simulation.h"

namespace shoal {
namespace {

constexpr uint64_t kSeedsToCatch = 1000;

constexpr uint32_t Only(PlannedFault::Kind kind) { return 1u << kind; }

constexpr uint32_t kAllFaults = ~0u;
// Something is loaded from a checkpoint.
constexpr uint32_t kLosses = Only(PlannedFault::kKillPs) | Only(PlannedFault::kKillChief) |
                             Only(PlannedFault::kKillAll) | Only(PlannedFault::kStop);

struct BrokenBuild {
  const char* promise;
  bool synchronous;
  uint32_t faults = kAllFaults;  // Bits of the kinds that may happen.
  bool tables = false;
};

std::string RunOnce(uint64_t seed, const BrokenBuild& build, const char* promise) {
  broken_promise = promise;
  ClusterSimulation::Options options;
  options.seed = seed;
  options.synchronous = build.synchronous;
  options.tables = build.tables;
  for (size_t kind = 0; kind < options.allowed.size(); ++kind) {
    options.allowed[kind] = (build.faults >> kind & 1) != 0;
  }
  std::string failure = ClusterSimulation(options).Run();
  broken_promise = "";
  return failure;
}

class BrokenBuildsTest : public ::testing::TestWithParam<BrokenBuild> {};

TEST_P(BrokenBuildsTest, IsNoticed) {
  LogOptions log;
  log.min_severity = LogSeverity::kFatal;  // Faults are what the tasks warn of.
  SetUpLog(log).IgnoreError();
  const BrokenBuild& build = GetParam();
  for (uint64_t seed = 0; seed < kSeedsToCatch; ++seed) {
    const std::string failure = RunOnce(seed, build, build.promise);
    // Noticed is what the program as it is does right.
    if (failure.empty() || !RunOnce(seed, build, "").empty()) continue;
    std::printf("seed %llu: %s\n", static_cast<unsigned long long>(seed), failure.c_str());
    return;
  }
  FAIL() << build.promise << " is not noticed within " << kSeedsToCatch << " runs";
}

constexpr BrokenBuild kBuilds[] = {
    {"repeated contributions count again", true},
    {"repeated contributions count again", false},
    // Needed by a worker that comes when nobody else has the version any more.
    {"the previous version is not kept", true,
     Only(PlannedFault::kKillWorker) | Only(PlannedFault::kCutBothWays)},
    {"lineages are not checked", true},
    {"withheld batches are taken", true},
    {"batches are skipped that some slices have", true},
    {"a batch that cannot be delivered is not undone", true},
    {"delivered batches are forgotten", true},
    {"skips are forgotten", true},
    {"only the lost ps goes back", true},
    {"shards do not know their batches", false},
    {"what a ps lost is not issued again", false},
    {"a worker that comes back finishes its former leases", false},
    {"damaged contributions are taken", true},
    {"a refused report is dropped", true},
    {"a gap is believed", true},
    {"lines do not wait for their evaluations", true},
    {"a scale that could not be applied is forgotten", true, Only(PlannedFault::kPauseChief)},
    {"a worker's term is believed", true, Only(PlannedFault::kForgedTerm)},
    {"a chief that stood still grants no leases", false, Only(PlannedFault::kPauseChief)},
    {"an error from in between is believed", true, Only(PlannedFault::kWrongAnswers)},
    {"an error from in between is believed", false, Only(PlannedFault::kWrongAnswers)},
    {"a ps acts without a lease", true},
    {"a lease counts from its answer", true},
};

// They concern the rows of tables only.
constexpr BrokenBuild kBuildsWithTables[] = {
    {"a row counts twice", true, kAllFaults, true},
    {"a row counts twice", false, kAllFaults, true},
    {"an empty contribution is lost", true, kAllFaults, true},
    {"an empty contribution is lost", false, kAllFaults, true},
    {"an undo is forgotten", true, kAllFaults, true},
    {"a row expires a version late", true, kAllFaults, true},
    {"an expired row continues", true, kAllFaults, true},
    {"a key is admitted a step early", true, kAllFaults, true},
    {"a key is admitted a step early", false, kAllFaults, true},
    {"rows are left out of the norm", true, kAllFaults, true},
    {"the rows of another batch are used", true, kAllFaults, true},
    {"rows of an older version are used", true, kAllFaults, true},
    {"a key that was not named gets another row", true, kAllFaults, true},
    {"a restored row counts as touched", true, kLosses, true},
    {"slots are not restored", true, kLosses, true},
    {"counts are not restored", true, kLosses, true},
    {"counts are not restored", false, kLosses, true},
    {"a bucket is restored at the version of its base", true, kLosses, true},
    {"a bucket is restored at the version of its base", false, kLosses, true},
    {"a delta misses the rows of a step", true, kAllFaults, true},
    {"a delta keeps removed rows", true, kAllFaults, true},
    {"a delta has no counts", true, kAllFaults, true},
};

std::string NameOfBuild(const ::testing::TestParamInfo<BrokenBuild>& build) {
  std::string name = build.param.synchronous ? "Sync_" : "Async_";
  for (const char* c = build.param.promise; *c != 0; ++c) name += std::isalnum(*c) != 0 ? *c : '_';
  return name;
}

INSTANTIATE_TEST_SUITE_P(Promises, BrokenBuildsTest, ::testing::ValuesIn(kBuilds), NameOfBuild);
INSTANTIATE_TEST_SUITE_P(PromisesOfTables, BrokenBuildsTest, ::testing::ValuesIn(kBuildsWithTables),
                         NameOfBuild);

}  // namespace
}  // namespace shoal
