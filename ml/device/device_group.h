// A group of devices of one type that sum and broadcast values among themselves, without copies
// through the host.
//
// Each device is a rank. The thread that uses the device makes the calls for its rank, and all
// ranks make the same calls in the same order. A call enqueues its work on the device's queue
// kGroup and returns. The memory that a rank passes must not be changed until that work is done.
#ifndef SHOAL_ML_DEVICE_DEVICE_GROUP_H_
#define SHOAL_ML_DEVICE_DEVICE_GROUP_H_

#include <cstddef>

namespace shoal {

class DeviceGroup {
 public:
  virtual ~DeviceGroup() = default;

  // Writes the elementwise sum of all ranks' `from` (`count` floats) to `to` of the root. The `to`
  // of the other ranks is not used. The order of additions is always the same.
  virtual void ReduceSum(int rank, int root, const float* from, float* to, size_t count) = 0;
  // Copies `bytes` bytes from the root's `data` to the `data` of all other ranks.
  virtual void Broadcast(int rank, int root, void* data, size_t bytes) = 0;
  // The rank's calls between StartBatch and EndBatch become one piece of work, which EndBatch
  // starts. The rank's thread must not call Abort in between; an Abort by another thread waits for
  // EndBatch.
  virtual void StartBatch(int rank) = 0;
  virtual void EndBatch(int rank) = 0;
  // Call this when a rank has failed and will make no more calls. It ends the waits of all other
  // ranks; all results are undefined. Any thread may call it. A call that fails reports its error
  // to its device and aborts the group itself.
  virtual void Abort() = 0;
};

}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_DEVICE_GROUP_H_
