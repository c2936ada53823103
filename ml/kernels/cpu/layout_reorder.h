// Converts images between the plain layout and blocks of 16 channels.
#ifndef SHOAL_ML_KERNELS_CPU_LAYOUT_REORDER_H_
#define SHOAL_ML_KERNELS_CPU_LAYOUT_REORDER_H_

#include <cstdint>

#include "ml/tensor/tensor_spec.h"

namespace shoal::cpu {

// Transposes each block of 16 channels: [16][pixels] to [pixels][16] if to_blocked, or back. If the
// number of channels is not a multiple of 16, the last block is padded with zeros, as in oneDNN.
struct LayoutReorder {
  int64_t images, channels, pixels;
  bool to_blocked;

  void Run(int threads, const float* x, float* y) const;
  void Run(int threads, const uint16_t* x, uint16_t* y) const;  // for bfloat16
};

LayoutReorder MakeLayoutReorder(const Shape& shape, Layout to);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_LAYOUT_REORDER_H_
