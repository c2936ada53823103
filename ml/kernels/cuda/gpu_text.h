// Texts about GPUs for logs and errors: how many there are of which model, or why CUDA finds none.
// The build needs no CUDA for it.
#ifndef SHOAL_ML_KERNELS_CUDA_GPU_TEXT_H_
#define SHOAL_ML_KERNELS_CUDA_GPU_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace shoal::cuda {

// Returns a version as people write it, "13.0", from CUDA's number for it, 13000.
std::string VersionText(int version);

// Returns why CUDA finds no GPU. `driver` is CUDA's number of the newest version that the driver
// supports, 0 without a driver; `runtime` is the number of this program's version; `error` is
// CUDA's text, empty if it reports none.
std::string WhyNoGpus(int driver, int runtime, absl::string_view error);

// Returns how many GPUs there are of each model, given the model of each GPU, which is empty if it
// could not be read: "1 x NVIDIA H100 sm_90, 2 x NVIDIA L4 sm_89", or "1 GPU" without a model.
std::string CountedModels(const std::vector<std::string>& models);

// Returns each of these models once, sorted, so that the result does not depend on their order:
// "NVIDIA H100 sm_90 and NVIDIA L4 sm_89".
std::string DistinctModels(const std::vector<std::string>& models);

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_GPU_TEXT_H_
