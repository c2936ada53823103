// The backends of this machine that the conformance test checks.
#ifndef SHOAL_ML_KERNELS_CONFORMANCE_BACKENDS_H_
#define SHOAL_ML_KERNELS_CONFORMANCE_BACKENDS_H_

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/device/device.h"
#include "ml/device/kernel.h"

namespace shoal {

struct ConformanceBackend {
  std::string name;
  KernelFactory create_kernel;
  std::vector<std::string> ops;    // the names of the ops that it has kernels for
  LayoutSupport supports_layout;   // empty: plain only
  std::shared_ptr<Device> device;  // null: the host
  // Opens the device again after `device` was released; empty for the host.
  std::function<absl::StatusOr<std::shared_ptr<Device>>()> open_device;
};

// Returns the CPU backend with each instruction set of this machine, the loops of the GPU backend
// run on the host, and the first GPU if there is one and the build has CUDA. If the environment
// variable SHOAL_CONFORMANCE_BACKENDS is set, only the backends that it names, separated by commas.
std::vector<ConformanceBackend> ConformanceBackends();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_CONFORMANCE_BACKENDS_H_
