// TensorFlow's device strings: "/job:ps/replica:0/task:1/device:GPU:2", every part optional.
#ifndef SHOAL_ML_TENSOR_DEVICE_SPEC_H_
#define SHOAL_ML_TENSOR_DEVICE_SPEC_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace shoal {

struct DeviceSpec {
  std::string job;  // empty: not said
  std::optional<int> replica;
  std::optional<int> task;
  std::string device_type;  // upper case, "CPU" or "GPU"; empty: not said
  std::optional<int> device_index;

  // Reads a device string; also the legacy forms "/cpu:0" and "/gpu:*" ("*": any index).
  // InvalidArgument "Unknown attribute: '...'" or "Cannot specify multiple device types: ...".
  static absl::StatusOr<DeviceSpec> Parse(absl::string_view text);

  // The fields of `inner` where it has them, else those of this spec: how a device scope narrows
  // the one around it. A type that replaces another one drops the replaced index.
  DeviceSpec MergedWith(const DeviceSpec& inner) const;

  // Canonical: "/job:worker/replica:0/task:1/device:GPU:0"; an index that is not said prints "*".
  std::string ToString() const;

  friend bool operator==(const DeviceSpec& a, const DeviceSpec& b) {
    return a.job == b.job && a.replica == b.replica && a.task == b.task &&
           a.device_type == b.device_type && a.device_index == b.device_index;
  }
  friend bool operator!=(const DeviceSpec& a, const DeviceSpec& b) { return !(a == b); }
};

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_DEVICE_SPEC_H_
