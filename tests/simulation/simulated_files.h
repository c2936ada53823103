// The disk of the run as one simulated process sees it. All processes share the files; the disk may
// be slow or failing for some tasks.
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

// A temporary fault of one task's disk.
struct DiskFault {
  absl::Duration delay;  // Added to every change.
  absl::Status error;    // Returned by every `every`-th change; OK: changes succeed.
  absl::Time until = absl::InfinitePast();
  uint64_t every = 1;
  uint64_t changes = 0;  // Those of the task since the fault began.
};

struct SimulatedDisks {
  FaultyFileSystem files;
  std::map<std::string, DiskFault> faults;  // Keyed by task name.
  uint64_t failed = 0;                      // Changes that failed.
  uint64_t slowed = 0;

  // Flips one bit in a file of the newest checkpoint. Returns the file's path; empty if there is no
  // checkpoint.
  std::string DamageNewestCheckpoint(const std::string& root, SeededRandom* random);
};

// Returns the process's view of the disks. Changes by a dead process have no effect.
std::unique_ptr<FileSystem> NewSimulatedFileSystem(SimulatedDisks* disks, Fibers* fibers,
                                                   SimulatedProcess* process);

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_SIMULATED_FILES_H_
