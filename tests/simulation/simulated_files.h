// The disk of the run as one simulated process sees it: shared by all, slow or failing for some.
#ifndef SHOAL_TESTS_SIMULATION_SIMULATED_FILES_H_
#define SHOAL_TESTS_SIMULATION_SIMULATED_FILES_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

#include "base/faulty_file_system.h"
#include "base/file_system.h"
#include "tests/simulation/fibers.h"
#include "tests/simulation/simulated_network.h"

namespace shoal {

// What is wrong with the disk of a task for a while.
struct DiskFault {
  absl::Duration delay;  // Of every change.
  absl::Status error;    // Of every change; OK: none.
  absl::Time until = absl::InfinitePast();
};

struct SimulatedDisks {
  FaultyFileSystem files;
  std::map<std::string, DiskFault> faults;  // By task.
  uint64_t failed = 0;                      // Changes that failed.
  uint64_t slowed = 0;

  // Flips a bit of a file of the newest checkpoint. Returns its path; empty: there is none.
  std::string DamageNewestCheckpoint(const std::string& root, SeededRandom* random);
};

// A process that is dead changes nothing.
std::unique_ptr<FileSystem> NewSimulatedFileSystem(SimulatedDisks* disks, Fibers* fibers,
                                                   SimulatedProcess* process);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_FILES_H_
