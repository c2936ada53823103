// A convolution over maps of a few pixels as one product of matrices per tap of the window: the
// rows are the pairs of pixels that the tap joins, in all images. Where most taps of a window lie
// in the padding this does a fraction of the work, and the weights' gradient is as fast as the
// others.
#ifndef SHOAL_ML_KERNELS_CPU_TAP_CONVOLUTION_H_
#define SHOAL_ML_KERNELS_CPU_TAP_CONVOLUTION_H_

#include <memory>

#include "ml/kernels/cpu/onednn_convolution.h"

namespace shoal::cpu {

// Returns whether taps are the faster algorithm: a table by shape. Images must be in blocks of 16
// channels.
bool PrefersTaps(const ConvolutionOptions& options);

// Makes the convolution; PrefersTaps must hold for the options.
std::unique_ptr<OnednnConvolution> CreateTapConvolution(const ConvolutionOptions& options);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_TAP_CONVOLUTION_H_
