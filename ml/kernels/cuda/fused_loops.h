// Loops before and after products and convolutions, for operations that the libraries cannot fuse
// with these. They enqueue on `stream`, a CudaQueue, and return.
#ifndef SHOAL_ML_KERNELS_CUDA_FUSED_LOOPS_H_
#define SHOAL_ML_KERNELS_CUDA_FUSED_LOOPS_H_

#include <cstddef>
#include <cstdint>

#include "ml/kernels/cuda/loops.h"

namespace shoal::cuda {

// A tensor seen as [outer, channels, inner].
struct ChannelView {
  int outer = 1, channels = 1, inner = 1;
  int count() const { return outer * channels * inner; }
};

// y = activation(y + bias[channel]); `bias` may be null.
void AddBiasAndActivate(void* stream, const ChannelView& view, const float* bias,
                        Activation activation, float* y);
// dz = dy times the slope of the activation whose output is y.
void UndoActivation(void* stream, int count, Activation activation, const float* y, const float* dy,
                    float* dz);
// Sets dx to 0 where x is not positive.
void UndoRelu(void* stream, int count, const float* x, float* dx);
// Sets all `count` elements of `to` to *from.
void Repeat(void* stream, const float* from, int count, float* to);

// Sums x over all dimensions except the channels. The workspace has SumChannelsWorkspace bytes.
size_t SumChannelsWorkspace(const ChannelView& view);
void SumChannels(void* stream, const ChannelView& view, const float* x, void* workspace,
                 float* sums);

// Planes [height, width] inside larger planes [padded_height, padded_width], at row `top` and
// column `left`.
struct Frame {
  int planes = 0, height = 0, width = 0, top = 0, left = 0, padded_height = 0, padded_width = 0;
  int padded_count() const { return planes * padded_height * padded_width; }
};
// PadPlanes copies the planes into larger ones and writes zeros around them; CropPlanes copies them
// back. The elements are float or bfloat16.
void PadPlanes(void* stream, const Frame& frame, const float* x, float* padded);
void PadPlanes(void* stream, const Frame& frame, const uint16_t* x, uint16_t* padded);
void CropPlanes(void* stream, const Frame& frame, const float* padded, float* x);
void CropPlanes(void* stream, const Frame& frame, const uint16_t* padded, uint16_t* x);

// Converts `count` elements from bfloat16 to float.
void WidenBfloat16(void* stream, const uint16_t* from, int count, float* to);

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_FUSED_LOOPS_H_
