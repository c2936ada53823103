// A simulated device with its own memory, for tests. Its memory is memory of the host at addresses
// that the host must not access, its queues are threads, and its kernels are those of another
// backend. It reveals without a GPU the mistakes that would fail on one: an access through a
// pointer to the wrong memory ends the process, and work that did not wait for its inputs is a data
// race, which the thread sanitizer reports.
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
  std::atomic<int64_t> batches{0};                    // summed over the ranks
  std::atomic<int64_t> allocated_bytes{0};
};

struct SimulatedDeviceOptions {
  int num_devices = 1;
  // The ops that have a kernel; empty: all ops of the inner backend.
  std::vector<std::string> ops;
  // The number of the kernel run that makes the device fail, counted from 0 over all runs of the
  // graph; -1: none.
  int64_t failing_kernel = -1;
  SimulatedTraffic* traffic = nullptr;  // borrowed, must outlive the backend; may be null
  // True if the devices can form groups, which add in the order of the ranks.
  bool has_groups = true;
  // The status that opening a group returns.
  absl::Status group_status = absl::OkStatus();
  // The number of the group call that makes the device of its rank fail, counted from 0 over all
  // ranks and runs; later calls of that rank wait until the group is aborted. -1: none.
  int64_t failing_group_call = -1;
  // True if the devices can record and replay work.
  bool has_recordings = true;
};

// Returns a backend with devices "/gpu:0", ... that run the kernels of `inner`. They have no kernel
// for variables of integers.
KernelBackend SimulatedBackend(const KernelBackend& inner, SimulatedDeviceOptions options);

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_SIMULATED_DEVICE_H_
