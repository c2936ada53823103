// A convolution's product run a few images at a time, so that what comes before or after it is
// still in L2.
#ifndef SHOAL_ML_KERNELS_CPU_CHUNKED_CONVOLUTION_H_
#define SHOAL_ML_KERNELS_CPU_CHUNKED_CONVOLUTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "ml/kernels/cpu/onednn_convolution.h"

namespace shoal::cpu {

// Computes by taps on maps of up to four pixels, else with oneDNN's Winograd where that is the
// faster algorithm (a fixed table of shapes, on machines with AVX-512), else direct.
absl::StatusOr<std::unique_ptr<OnednnConvolution>> CreatePreferredConvolution(
    ConvolutionOptions options);

// One primitive for chunks of `chunk_images` and, if the batch is not a multiple of that, one for
// the rest.
class ChunkedConvolution {
 public:
  static absl::StatusOr<ChunkedConvolution> Create(const ConvolutionOptions& options,
                                                   int64_t chunk_images);

  size_t workspace_bytes() const { return full_bytes_ + rest_bytes_; }
  void PackWeights(const float* weights, char* workspace);
  // For the images [first, first + images): `images` is a chunk or the rest of the batch. Buffers
  // as in OnednnConvolution, already at the first image.
  void Run(int64_t images, const OnednnConvolution::Buffers& buffers, char* workspace);

 private:
  std::unique_ptr<OnednnConvolution> full_, rest_;
  int64_t chunk_images_ = 0;
  size_t full_bytes_ = 0;
  size_t rest_bytes_ = 0;
};

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_CHUNKED_CONVOLUTION_H_
