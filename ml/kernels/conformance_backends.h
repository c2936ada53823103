// The backends of this machine that the conformance test checks.
#ifndef SHOAL_ML_KERNELS_CONFORMANCE_BACKENDS_H_
#define SHOAL_ML_KERNELS_CONFORMANCE_BACKENDS_H_

#include <memory>
#include <string>
#include <vector>

#include "ml/device/device.h"
#include "ml/device/kernel.h"

namespace shoal {

struct ConformanceBackend {
  std::string name;
  KernelFactory create_kernel;
  std::vector<std::string> ops;    // the names of the ops that it has kernels for
  LayoutSupport supports_layout;   // empty: plain only
  std::shared_ptr<Device> device;  // null: the host
};

// Returns the CPU backend with each instruction set of this machine, the loops of the GPU backend
// run on the host, and the first GPU if there is one and the build has CUDA.
std::vector<ConformanceBackend> ConformanceBackends();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_CONFORMANCE_BACKENDS_H_
