// (testonly) The group of simulated devices. A part of simulated_device.cc.
#ifndef SHOAL_ML_DEVICE_SIMULATED_GROUP_H_
#define SHOAL_ML_DEVICE_SIMULATED_GROUP_H_

#include <memory>
#include <vector>

#include "absl/functional/any_invocable.h"
#include "absl/strings/string_view.h"

#include "ml/device/device_group.h"
#include "ml/device/simulated_device.h"

namespace shoal {

// The interface that a group uses to reach the device of one rank.
class SimulatedRank {
 public:
  virtual ~SimulatedRank() = default;
  // Runs `work` in the device's group queue.
  virtual void EnqueueGroupCall(absl::AnyInvocable<void()> work) = 0;
  // Makes the device fail with this message.
  virtual void Fail(absl::string_view message) = 0;
};

// Returns a group whose ranks exchange values in memory. If the calls of the ranks differ, which
// would hang GPUs, the process ends. Uses options.failing_group_call; options.traffic is not null.
std::shared_ptr<DeviceGroup> NewSimulatedGroup(std::vector<std::shared_ptr<SimulatedRank>> ranks,
                                               const SimulatedDeviceOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_SIMULATED_GROUP_H_
