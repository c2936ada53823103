// Runs a product of a convolution on a few images at a time, so that the operations before and
// after it find their data in the L2 cache.
#ifndef SHOAL_ML_KERNELS_CPU_CHUNKED_CONVOLUTION_H_
#define SHOAL_ML_KERNELS_CPU_CHUNKED_CONVOLUTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/statusor.h"

#include "ml/kernels/cpu/convolution_primitive.h"

namespace shoal::cpu {

// Makes the product with the fastest algorithm: by taps for maps of at most four pixels; otherwise,
// for the shapes in a fixed table and on machines with AVX-512, oneDNN's Winograd if
// options.allow_winograd is set; otherwise direct convolution.
absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreatePreferredConvolution(
    ConvolutionOptions options);

// Has one primitive for chunks of `chunk_images` images and, if the batch is not a multiple of
// that, another one for the rest.
class ChunkedConvolution {
 public:
  static absl::StatusOr<ChunkedConvolution> Create(const ConvolutionOptions& options,
                                                   int64_t chunk_images);

  size_t workspace_bytes() const { return full_bytes_ + rest_bytes_; }
  void PackWeights(const float* weights, char* workspace);
  // Computes the product for one chunk; `images` is chunk_images or the size of the rest. The
  // buffers are those of ConvolutionPrimitive and start at the chunk's first image.
  void Run(int64_t images, const ConvolutionPrimitive::Buffers& buffers, char* workspace);

 private:
  std::unique_ptr<ConvolutionPrimitive> full_, rest_;
  int64_t chunk_images_ = 0;
  size_t full_bytes_ = 0;
  size_t rest_bytes_ = 0;
};

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_CHUNKED_CONVOLUTION_H_
