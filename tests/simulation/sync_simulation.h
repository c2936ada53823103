#ifndef SHOAL_TESTS_SIMULATION_SYNC_SIMULATION_H_
#define SHOAL_TESTS_SIMULATION_SYNC_SIMULATION_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "tests/simulation/sync_world.h"

namespace shoal {

// One SYNC run in virtual time, with the real chief, slice stores and step logic, under faults
// drawn from the seed: lost, repeated, delayed messages; workers and ps that die and come back
// without their memory; batches that are not finite or kill whoever computes them; surplus workers,
// too few workers, cuts on request.
//
// Judged at the end: the last durable cut holds, bit for bit, the values and slots of a sequential
// run without the batches that were skipped; only bad batches were skipped; every step has one line
// with exactly its batches in it; every evaluation is of its version; nobody waits for ever.
class SyncSimulation {
 public:
  SyncSimulation(uint64_t seed, const SyncBroken& broken);
  ~SyncSimulation();

  // Empty, or the promise that was broken.
  std::string Run();

  struct Counts {
    uint64_t steps = 0;
    uint64_t skipped = 0;
    uint64_t rollbacks = 0;
    uint64_t worker_deaths = 0;
    uint64_t ps_deaths = 0;
    uint64_t resumes = 0;
    uint64_t events = 0;
  };
  const Counts& counts() const { return counts_; }

  bool verbose = false;  // print what the chief notes

 private:
  void StartLife();
  void EndLife();
  static SyncScenario Draw(uint64_t seed, const SyncBroken& broken);
  void StartPs(uint32_t index);
  void StartWorker(uint32_t index);
  void ScheduleFaults();
  void Fault();
  void Tick();
  void Deliver(const PsCommand& command);
  void Record(const SessionRecord& record);
  void WriteManifest(const ManifestToWrite& write);
  std::string WhoWaits() const;
  void Judge();
  void JudgeStep(const SequentialRun& sequential, const SequentialRun::StepSums& sums);
  void JudgeCut(const SequentialRun& sequential);

  SyncWorld world_;
  std::map<uint64_t, StepLine> lines_;  // by step
  bool everything_dies_ = false;
  Counts counts_;
};

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SYNC_SIMULATION_H_
