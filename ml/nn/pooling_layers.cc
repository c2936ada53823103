#include "ml/nn/pooling_layers.h"

#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "ml/nn/layer_parts.h"
#include "ml/nn/layers.h"

namespace shoal {
namespace {

Output Pool(GraphBuilder& builder, absl::string_view op, Output images,
            const PoolOptions& options) {
  if (!CheckInput(builder, images, 4, 4, kImages)) return {};
  Window window{options.kernel, options.stride, 1, options.padding};
  if (window.stride.height == 0) window.stride.height = window.kernel.height;
  if (window.stride.width == 0) window.stride.width = window.kernel.width;
  Attributes attributes{
      {"kernel_shape", std::vector<int64_t>{options.kernel.height, options.kernel.width}}};
  if (!MakeWindowAttributes(builder, images, window, &attributes)) return {};
  return builder.Op(op, {images}, std::move(attributes));
}

Output GlobalPool(GraphBuilder& builder, absl::string_view op, Output images) {
  if (!CheckInput(builder, images, 4, 4, kImages)) return {};
  return Flatten(builder, builder.Op(op, {images}));
}

}  // namespace

Output MaxPool(GraphBuilder& builder, Output images, const PoolOptions& options) {
  return Pool(builder, "MaxPool", images, options);
}

Output AveragePool(GraphBuilder& builder, Output images, const PoolOptions& options) {
  return Pool(builder, "AveragePool", images, options);
}

Output GlobalAveragePool(GraphBuilder& builder, Output images) {
  return GlobalPool(builder, "GlobalAveragePool", images);
}

Output GlobalMaxPool(GraphBuilder& builder, Output images) {
  return GlobalPool(builder, "GlobalMaxPool", images);
}

}  // namespace shoal
