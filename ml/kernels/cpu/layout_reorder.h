// Moving images between plain order and blocks of 16 channels.
#ifndef SHOAL_ML_KERNELS_CPU_LAYOUT_REORDER_H_
#define SHOAL_ML_KERNELS_CPU_LAYOUT_REORDER_H_

#include <cstdint>

#include "ml/tensor/tensor_spec.h"

namespace shoal::cpu {

// Each block: [16][pixels] <-> [pixels][16]. The last block is filled with zeros if the number of
// channels is not a multiple of 16, as in oneDNN.
struct LayoutReorder {
  int64_t images, channels, pixels;
  bool to_blocked;

  void Run(int threads, const float* x, float* y) const;
  void Run(int threads, const uint16_t* x, uint16_t* y) const;  // of bfloat16
};

LayoutReorder MakeLayoutReorder(const Shape& shape, Layout to);

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_LAYOUT_REORDER_H_
