// Runs many seeds of the simulation and prints the faults in them, their consequences, and how long
// the recovery took.
//
//   bazel run -c opt //tests/simulation:simulate -- --seeds=0:100000
//   bazel run -c opt //tests/simulation:simulate -- --tables --seeds=0:100000
//   bazel run //tests/simulation:simulate -- --seeds=17:18 --mode=sync --verbose
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"

#include "base/log.h"
#include "tests/simulation/cluster_simulation.h"

namespace shoal {
namespace {

// A message without its numbers and its remedy.
std::string KindOf(absl::string_view message) {
  std::string kind;
  for (const char c : message.substr(0, message.find(';'))) {
    if (!absl::ascii_isdigit(static_cast<unsigned char>(c))) {
      kind += c;
    } else if (kind.empty() || kind.back() != '#') {
      kind += '#';
    }
  }
  return kind;
}

struct Failures {
  uint64_t count = 0;
  uint64_t first_seed = 0;

  void Add(uint64_t seed) {
    if (count++ == 0) first_seed = seed;
  }
};

struct Sums {
  uint64_t runs = 0;
  uint64_t failed = 0;
  uint64_t deltas = 0;  // Runs whose last checkpoint has only the changes since another one.
  ClusterSimulation::Counts counts;
  double seconds = 0;
  std::map<PlannedFault::Kind, std::vector<std::pair<double, uint64_t>>> recoveries;  // And seed.
  std::map<std::string, Failures> failures;  // Runs that were given up and restarted, by reason.

  void Add(uint64_t seed, const ClusterSimulation::Counts& run) {
    ++runs;
    counts.steps += run.steps;
    counts.skipped += run.skipped;
    counts.lives += run.lives;
    counts.turns += run.turns;
    counts.failed_changes += run.failed_changes;
    counts.rows += run.rows;
    counts.counted_keys += run.counted_keys;
    deltas += run.is_delta ? 1 : 0;
    for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
      counts.faults[kind] += run.faults[kind];
    }
    counts.network.messages += run.network.messages;
    counts.network.lost += run.network.lost;
    counts.network.repeated += run.network.repeated;
    counts.network.cut += run.network.cut;
    counts.network.wrong += run.network.wrong;
    counts.network.damaged += run.network.damaged;
    seconds += run.seconds;
    for (const std::string& failure : run.failures) failures[KindOf(failure)].Add(seed);
    for (const ClusterSimulation::Recovery& recovery : run.recoveries) {
      recoveries[recovery.kind].emplace_back(recovery.seconds, seed);
    }
  }

  void Print(const char* mode) {
    std::printf(
        "%s: %llu runs, %llu failed; %llu steps, %llu batches skipped, %llu lives of tasks, "
        "%.0f s of virtual time, %llu turns\n",
        mode, Number(runs), Number(failed), Number(counts.steps), Number(counts.skipped),
        Number(counts.lives), seconds, Number(counts.turns));
    std::printf(
        "  messages: %llu, lost %llu, repeated %llu, cut off %llu, damaged %llu, answered "
        "wrongly %llu; changes on disk that failed: %llu\n",
        Number(counts.network.messages), Number(counts.network.lost),
        Number(counts.network.repeated), Number(counts.network.cut), Number(counts.network.damaged),
        Number(counts.network.wrong), Number(counts.failed_changes));
    if (counts.rows > 0) {
      std::printf(
          "  rows of tables in last checkpoints: %llu, keys without a row: %llu, deltas: %llu\n",
          Number(counts.rows), Number(counts.counted_keys), Number(deltas));
    }
    for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
      auto& times = recoveries[static_cast<PlannedFault::Kind>(kind)];
      std::sort(times.begin(), times.end());
      std::printf("  %-22s %8llu", NameOf(static_cast<PlannedFault::Kind>(kind)),
                  Number(counts.faults[kind]));
      if (!times.empty()) {
        std::printf(
            "   alone in %zu runs: steps resume after %.1f s (median), %.1f s (19 of 20), %.1f s "
            "(at most, seed %llu)",
            times.size(), times[times.size() / 2].first, times[times.size() * 19 / 20].first,
            times.back().first, Number(times.back().second));
      }
      std::printf("\n");
    }
    for (const auto& [kind, runs] : failures) {
      std::printf("  run failed: %llu times (first in seed %llu): %s\n", Number(runs.count),
                  Number(runs.first_seed), kind.c_str());
    }
  }

 private:
  static unsigned long long Number(uint64_t n) { return n; }
};

int Main(const std::vector<std::string>& arguments) {
  uint64_t from = 0, to = 100;
  std::string mode = "both";
  bool verbose = false, tables = false;
  std::vector<bool> allowed = AllFaults();
  for (const std::string& argument : arguments) {
    absl::string_view text = argument;
    if (absl::ConsumePrefix(&text, "--seeds=")) {
      const std::vector<std::string> ends = absl::StrSplit(text, ':');
      if (ends.size() != 2 || !absl::SimpleAtoi(ends[0], &from) ||
          !absl::SimpleAtoi(ends[1], &to)) {
        std::fprintf(stderr, "--seeds=FROM:TO\n");
        return 64;
      }
    } else if (absl::ConsumePrefix(&text, "--mode=")) {
      mode = std::string(text);
    } else if (absl::ConsumePrefix(&text, "--without=")) {
      for (int kind = 0; kind < PlannedFault::kNumKinds; ++kind) {
        if (absl::StrContains(text, NameOf(static_cast<PlannedFault::Kind>(kind)))) {
          allowed[static_cast<size_t>(kind)] = false;
        }
      }
    } else if (text == "--tables") {
      tables = true;
    } else if (text == "--verbose") {
      verbose = true;
    } else {
      std::fprintf(stderr,
                   "unknown: %s; --seeds=FROM:TO --mode=sync|async|both --without=FAULT,FAULT "
                   "--tables --verbose\n",
                   argument.c_str());
      return 64;
    }
  }
  LogOptions log;
  log.min_severity = verbose ? LogSeverity::kInfo : LogSeverity::kFatal;
  SetUpLog(log).IgnoreError();
  uint64_t failed = 0;
  for (const bool synchronous : {true, false}) {
    if (mode != "both" && mode != (synchronous ? "sync" : "async")) continue;
    Sums sums;
    for (uint64_t seed = from; seed < to; ++seed) {
      ClusterSimulation::Options options;
      options.seed = seed;
      options.synchronous = synchronous;
      options.tables = tables;
      options.verbose = verbose;
      options.allowed = allowed;
      ClusterSimulation simulation(options);
      if (verbose) std::fprintf(stderr, "%s", simulation.Describe().c_str());
      const std::string failure = simulation.Run();
      sums.Add(seed, simulation.counts());
      if (failure.empty()) continue;
      ++sums.failed;
      if (sums.failed <= 20) {
        std::printf("FAILED: %s\n%s", failure.c_str(), simulation.Describe().c_str());
        std::fflush(stdout);
      }
    }
    sums.Print(synchronous ? "SYNC" : "ASYNC");
    failed += sums.failed;
  }
  return failed == 0 ? 0 : 1;
}

}  // namespace
}  // namespace shoal

int main(int argc, char** argv) {
  return shoal::Main(std::vector<std::string>(argv + 1, argv + argc));
}
