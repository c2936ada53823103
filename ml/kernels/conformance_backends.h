// The backends that the conformance test judges: those of this machine.
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
  std::vector<std::string> ops;    // types that it has kernels for
  LayoutSupport supports_layout;   // empty: plain only
  std::shared_ptr<Device> device;  // null: the host
};

// The CPU with each instruction set that the machine has; the loops of the GPU backend on the host;
// and the first GPU, where there is one and the build has CUDA.
std::vector<ConformanceBackend> ConformanceBackends();

}  // namespace shoal

#endif  // SHOAL_ML_KERNELS_CONFORMANCE_BACKENDS_H_
