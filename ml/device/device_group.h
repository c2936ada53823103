// Devices of one type that add and spread values together, without the host between them.
//
// Each device is a rank and calls for itself, from the thread that uses it; all ranks make the same
// calls in the same order. A call puts its work into the device's queue kGroup and returns. What a
// rank gives must stay as it is until that work is done.
#ifndef SHOAL_ML_DEVICE_DEVICE_GROUP_H_
#define SHOAL_ML_DEVICE_DEVICE_GROUP_H_

#include <cstddef>

namespace shoal {

class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  // `to` of the root = the sum of all ranks' `from`, `count` elements; not read of the others. The
  // order of adding is always the same.
  virtual void ReduceSum(int rank, int root, const float* from, float* to, size_t count) = 0;
  // `data` of all ranks = that of the root.
  virtual void Broadcast(int rank, int root, void* data, size_t bytes) = 0;
  // Calls of the rank in between are one piece of work, started at its end. No Abort in between.
  virtual void StartBatch(int rank) = 0;
  virtual void EndBatch(int rank) = 0;
  // A rank has failed and will not come: nobody waits for it any more, and no result means
  // anything. Any thread. A call that fails tells its device and aborts the group by itself.
  virtual void Abort() = 0;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_DEVICE_GROUP_H_
