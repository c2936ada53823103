// A device that is none: its memory is the host's under addresses that the host must not follow,
// its queues are threads, its kernels another backend's. It shows without a GPU what would be
// wrong on one: pointers of the wrong memory end the process, work that should have waited is a
// race. Testonly.
#ifndef SHOAL_ML_DEVICE_SIMULATED_DEVICE_H_
#define SHOAL_ML_DEVICE_SIMULATED_DEVICE_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"

#include "ml/device/kernel.h"

namespace shoal {

// Counts of operations, summed over all devices of a backend.
struct SimulatedTraffic {
  std::atomic<int64_t> uploads{0}, downloads{0}, peer_copies{0}, kernels{0};
  std::atomic<int64_t> uploaded_bytes{0};
  std::atomic<int64_t> replays{0};
  std::atomic<int64_t> group_sums{0}, broadcasts{0};  // counted once per group, not per rank
  std::atomic<int64_t> batches{0};                    // of each rank
  std::atomic<int64_t> allocated_bytes{0};
};

struct SimulatedDeviceOptions {
  int num_devices = 1;
  // Ops with a kernel; empty: all of the inner backend's.
  std::vector<std::string> ops;
  // The kernel with this number fails the device, counted from 0 over all runs; -1: none does.
  int64_t failing_kernel = -1;
  SimulatedTraffic* traffic = nullptr;  // outlives the backend; may be null
  // True if the devices form groups, which add in the order of ranks, in memory.
  bool has_groups = true;
  // The result of opening a group.
  absl::Status group_status = absl::OkStatus();
  // The group's call with this number fails the device of its rank, counted from 0 over all ranks
  // and runs; later ones of that rank wait until the group is aborted. -1: none does.
  int64_t failing_group_call = -1;
  // Whether they can record.
  bool has_recordings = true;
};

// Devices "/gpu:0", ... whose kernels are the inner backend's. Integers have no variables there.
KernelBackend SimulatedBackend(const KernelBackend& inner, SimulatedDeviceOptions options);

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_SIMULATED_DEVICE_H_
