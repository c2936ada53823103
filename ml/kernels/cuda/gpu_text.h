// The words for GPUs, and for why there are none. Needs no CUDA.
#ifndef SHOAL_ML_KERNELS_CUDA_GPU_TEXT_H_
#define SHOAL_ML_KERNELS_CUDA_GPU_TEXT_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace shoal::cuda {

// Returns CUDA's number of a version as people write it: "13.0" for 13000.
std::string VersionText(int version);

// Returns why CUDA finds no GPU. `driver` is the newest CUDA that the driver supports, 0 without a
// driver; `runtime` is the CUDA of this program; `error` is CUDA's text, empty if it reports none.
std::string WhyNoGpus(int driver, int runtime, absl::string_view error);

// Returns how many GPUs there are of each model, given the model of each GPU, which is empty if it
// could not be read: "1 x NVIDIA H100 sm_90, 2 x NVIDIA L4 sm_89", or "1 GPU" without a model.
std::string CountedModels(const std::vector<std::string>& models);

// Returns each of these models once, whatever their order is: "NVIDIA H100 sm_90 and NVIDIA L4
// sm_89".
std::string DistinctModels(const std::vector<std::string>& models);

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_GPU_TEXT_H_
