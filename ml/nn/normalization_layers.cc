#include "ml/nn/normalization_layers.h"

#include <utility>

#include "ml/graph/ops.h"
#include "ml/nn/layer_parts.h"

namespace shoal {
namespace {

// A parameter per channel or element, or the constant it has if it is not wanted.
Output ChannelParameter(GraphBuilder& builder, bool is_wanted, const std::string& name,
                        double initial, const TensorSpec& channels) {
  if (!is_wanted) return ops::Constant(builder, initial, channels.dtype, channels.shape);
  return MakeParameter(builder, name, channels, ConstantInitializer(initial));
}

Output MovingAverage(GraphBuilder& builder, const std::string& name, double initial, double decay,
                     const TensorSpec& channels) {
  VariableSpec spec;
  spec.name = name;
  spec.shape = channels.shape;
  spec.dtype = channels.dtype;
  spec.trainable = false;
  spec.initializer = ConstantInitializer(initial);
  spec.update = UpdateKind::kMovingAverage;
  spec.decay = decay;
  return builder.GetVariable(std::move(spec));
}

}  // namespace

Output BatchNorm(GraphBuilder& builder, Output x, const BatchNormOptions& options) {
  const auto scope = LayerScope(builder, options.scope, "BatchNorm");
  if (!CheckInput(builder, x, 2, 4, "[batch, features] or images")) return {};
  const TensorSpec channels{x.dtype(), Shape({x.shape().dim(1)})};
  const Output offset = ChannelParameter(builder, options.use_offset, "beta", 0, channels);
  const Output scale =
      ChannelParameter(builder, options.use_scale, "gamma", options.scale_initial_value, channels);
  const Output mean = MovingAverage(builder, "moving_mean", 0, options.decay, channels);
  const Output variance = MovingAverage(builder, "moving_variance", 1, options.decay, channels);
  const Node* norm =
      builder.AddNode("BatchNorm", {x, scale, offset, mean, variance},
                      {{"epsilon", options.epsilon}, {"training", options.is_training}});
  if (norm == nullptr) return {};
  if (options.is_training) {
    builder.AddUpdateOp(mean, Output{norm, 1});
    builder.AddUpdateOp(variance, Output{norm, 2});
  }
  return Output{norm, 0};
}

Output LayerNorm(GraphBuilder& builder, Output x, const LayerNormOptions& options) {
  const auto scope = LayerScope(builder, options.scope, "LayerNorm");
  if (!CheckInput(builder, x, 2, Shape::kMaxRank, "[batch, features, ...]")) return {};
  const int64_t axis = options.axis < 0 ? options.axis + x.shape().rank() : options.axis;
  if (axis < 1 || axis >= x.shape().rank()) {
    FailLayer(builder, "axis", "must be one behind the batch's");
    return {};
  }
  TensorSpec row{x.dtype(), Shape()};
  for (int d = static_cast<int>(axis); d < x.shape().rank(); ++d) {
    row.shape.AddDim(x.shape().dim(d));
  }
  const Output offset = ChannelParameter(builder, options.use_offset, "beta", 0, row);
  const Output scale = ChannelParameter(builder, options.use_scale, "gamma", 1, row);
  return builder.Op("LayerNorm", {x, scale, offset},
                    {{"axis", axis}, {"epsilon", options.epsilon}});
}

Output LocalResponseNorm(GraphBuilder& builder, Output images,
                         const LocalResponseNormOptions& options) {
  if (!CheckInput(builder, images, 4, 4, kImages)) return {};
  return builder.Op("LocalResponseNorm", {images},
                    {{"depth_radius", options.depth_radius},
                     {"bias", options.bias},
                     {"alpha", options.alpha},
                     {"beta", options.beta}});
}

}  // namespace shoal
