// (testonly) The addresses of a simulated device's memory: addresses of the host in a form that no
// instruction can access. A part of simulated_device.cc and simulated_group.cc.
#ifndef SHOAL_ML_DEVICE_SIMULATED_MEMORY_H_
#define SHOAL_ML_DEVICE_SIMULATED_MEMORY_H_

#include <cstdint>

#include "base/log.h"

namespace shoal {
namespace simulated {

inline constexpr uintptr_t kTag = uintptr_t{1} << 60;

inline bool IsTagged(const void* data) { return (reinterpret_cast<uintptr_t>(data) & kTag) != 0; }

// Converts an address of the host to one of a device.
inline void* Tagged(void* data) {
  return reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(data) | kTag);
}

// Converts it back.
template <typename T>
T* Untagged(T* data) {
  CHECK(data == nullptr || IsTagged(data)) << "an address of the host on a device";
  return reinterpret_cast<T*>(reinterpret_cast<uintptr_t>(data) & ~kTag);
}

// Checks that the address is one of the host.
template <typename T>
T* OfHost(T* data) {
  CHECK(!IsTagged(data)) << "an address of a device on the host";
  return data;
}

}  // namespace simulated
}  // namespace shoal

#endif  // SHOAL_ML_DEVICE_SIMULATED_MEMORY_H_
