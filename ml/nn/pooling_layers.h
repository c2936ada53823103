// Pooling layers for images [batch, channels, height, width]; see layers.h.
#ifndef SHOAL_ML_NN_POOLING_LAYERS_H_
#define SHOAL_ML_NN_POOLING_LAYERS_H_

#include "ml/graph/graph_builder.h"
#include "ml/nn/window_options.h"

namespace shoal {

struct PoolOptions {
  Size2 kernel = 2;
  Size2 stride = 0;  // 0: the kernel's size
  Padding padding = Padding::Valid();
};
Output MaxPool(GraphBuilder& builder, Output images, const PoolOptions& options);
// Computes the mean over the pixels of the window that are inside the image.
Output AveragePool(GraphBuilder& builder, Output images, const PoolOptions& options);

// Compute the mean, or the maximum, of each channel's pixels: [batch, channels].
Output GlobalAveragePool(GraphBuilder& builder, Output images);
Output GlobalMaxPool(GraphBuilder& builder, Output images);

}  // namespace shoal

#endif  // SHOAL_ML_NN_POOLING_LAYERS_H_
