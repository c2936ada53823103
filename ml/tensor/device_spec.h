// A device in TensorFlow's notation, "/job:ps/replica:0/task:1/device:GPU:2". Every part is
// optional.
#ifndef SHOAL_ML_TENSOR_DEVICE_SPEC_H_
#define SHOAL_ML_TENSOR_DEVICE_SPEC_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace shoal {

struct DeviceSpec {
  std::string job;  // empty: not set
  std::optional<int> replica;
  std::optional<int> task;
  std::string device_type;  // upper case, "CPU" or "GPU"; empty: not set
  std::optional<int> device_index;

  // Parses a device string, also in the legacy forms "/cpu:0" and "/gpu:*" ("*": any index).
  // InvalidArgument "Unknown attribute: '...'" or "Cannot specify multiple device types: ...".
  static absl::StatusOr<DeviceSpec> Parse(absl::string_view text);

  // Returns this spec with the fields that `inner` sets replaced, as an inner device scope refines
  // the enclosing one. If `inner` replaces the device type, the index of the old type is dropped.
  DeviceSpec MergedWith(const DeviceSpec& inner) const;

  // Returns the canonical form, "/job:worker/replica:0/task:1/device:GPU:0"; an index that is not
  // set is printed as "*".
  std::string ToString() const;

  friend bool operator==(const DeviceSpec& a, const DeviceSpec& b) {
    return a.job == b.job && a.replica == b.replica && a.task == b.task &&
           a.device_type == b.device_type && a.device_index == b.device_index;
  }
  friend bool operator!=(const DeviceSpec& a, const DeviceSpec& b) { return !(a == b); }
};

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_DEVICE_SPEC_H_
