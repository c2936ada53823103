// Computes a convolution over maps of a few pixels as one matrix product for each tap of the
// window. The rows of the product are the pairs of input and output pixels that the tap connects,
// in all images. If most taps of a window are in the padding, this is a fraction of the work of
// other algorithms, and the gradient of the weights is as fast as the other products.
#ifndef SHOAL_ML_KERNELS_CPU_TAP_CONVOLUTION_H_
#define SHOAL_ML_KERNELS_CPU_TAP_CONVOLUTION_H_

#include <memory>

#include "ml/kernels/cpu/convolution_primitive.h"

namespace shoal::cpu {

// Returns whether this algorithm is the fastest for the shape, according to a fixed rule. Images
// must be in blocks of 16 channels.
bool PrefersTaps(const ConvolutionOptions& options);

// Makes the convolution; PrefersTaps must hold for the options.
std::unique_ptr<ConvolutionPrimitive> CreateTapConvolution(const ConvolutionOptions& options);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_TAP_CONVOLUTION_H_
