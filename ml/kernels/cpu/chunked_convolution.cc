#include "ml/kernels/cpu/chunked_convolution.h"

#include <algorithm>
#include <utility>

#include "ml/kernels/cpu/onednn_convolution.h"
#include "ml/kernels/cpu/simd/cpu_features.h"
#include "ml/kernels/cpu/tap_convolution.h"

namespace shoal::cpu {
namespace {

// On Zen 4 and Sapphire Rapids, Winograd took 0.4 to 0.8 of the direct algorithm's time for all
// three products, twice its time on maps of 2x2, and the same time with 16 channels. Its rounding
// errors are five times as large, so it is used only where measurements showed that they do not
// matter; see allow_winograd.
bool PrefersWinograd(const ConvolutionOptions& options) {
  if (!options.allow_winograd || options.product == ConvolutionProduct::kForward) return false;
  const ConvolutionShape& shape = options.shape;
  const WindowShape& w = shape.window;
  for (int a = 0; a < 2; ++a) {
    if (w.kernel[a] != 3 || w.stride[a] != 1 || w.dilation[a] != 1 || w.pad_before[a] > 1) {
      return false;
    }
  }
  const bool has_blocks = shape.in_channels % 16 == 0 && shape.out_channels % 16 == 0;
  if (shape.group != 1 || !has_blocks || shape.batch < 4) return false;
  return std::min(shape.out_size[0], shape.out_size[1]) >= 4 &&
         std::min(shape.in_channels, shape.out_channels) >= 32;
}

absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreateForImages(ConvolutionOptions options,
                                                                      int64_t images) {
  options.shape.batch = images;
  return CreatePreferredConvolution(options);
}

}  // namespace

absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> CreatePreferredConvolution(
    ConvolutionOptions options) {
  if (!options.relu6 && PrefersTaps(options)) return CreateTapConvolution(options);
  if (DetectCpuIsa() == CpuIsa::kAvx512 && PrefersWinograd(options)) {
    options.winograd = true;
    absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> winograd =
        CreateOnednnConvolution(options);
    if (winograd.ok()) return winograd;
    options.winograd = false;
  }
  return CreateOnednnConvolution(options);
}

absl::StatusOr<ChunkedConvolution> ChunkedConvolution::Create(const ConvolutionOptions& options,
                                                              int64_t chunk_images) {
  ChunkedConvolution result;
  const int64_t batch = options.shape.batch;
  result.chunk_images_ = std::min(chunk_images, batch);
  absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> full =
      CreateForImages(options, result.chunk_images_);
  if (!full.ok()) return full.status();
  result.full_ = *std::move(full);
  result.full_bytes_ = result.full_->workspace_bytes();
  if (const int64_t rest = batch % result.chunk_images_; rest > 0) {
    absl::StatusOr<std::unique_ptr<ConvolutionPrimitive>> small = CreateForImages(options, rest);
    if (!small.ok()) return small.status();
    result.rest_ = *std::move(small);
    result.rest_bytes_ = result.rest_->workspace_bytes();
  }
  return result;
}

void ChunkedConvolution::PackWeights(const float* weights, char* workspace) {
  full_->PackWeights(weights, workspace);
  if (rest_ != nullptr) rest_->PackWeights(weights, workspace + full_bytes_);
}

void ChunkedConvolution::Run(int64_t images, const ConvolutionPrimitive::Buffers& buffers,
                             char* workspace) {
  if (images == chunk_images_) {
    full_->Run(buffers, workspace);
  } else {
    rest_->Run(buffers, workspace + full_bytes_);
  }
}

}  // namespace shoal::cpu
