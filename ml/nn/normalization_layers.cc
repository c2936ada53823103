#include "ml/nn/normalization_layers.h"

#include <utility>
#include <vector>

#include "ml/graph/ops.h"
#include "ml/nn/layer_parts.h"

namespace shoal {
namespace {

// Returns a parameter with one number per channel or element, or a constant if the layer does not
// use the parameter.
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

struct Moments {
  Output centered;  // x - mean
  Output mean, variance;
  Output unbiased_variance;  // has Bessel's correction, for the moving average
};

// [channels] beside [batch, channels, height, width].
Output BesideImages(GraphBuilder& builder, Output channels, Output x) {
  if (x.shape().rank() == 2) return channels;
  return ops::Reshape(builder, channels, {x.shape().dim(1), 1, 1});
}

// Normalizes over the examples and pixels of all clones.
Moments MomentsOfClones(GraphBuilder& builder, Output x) {
  std::vector<int64_t> axes = {0};
  for (int d = 2; d < x.shape().rank(); ++d) axes.push_back(d);
  // One for each element of a channel; no gradient flows through a comparison.
  const Output channel = ops::Slice(builder, x, {0}, {1}, {1});
  const Output ones = ops::Cast(builder, ops::Equal(builder, channel, channel), x.dtype());
  const Output count = builder.SumOverClones(ops::ReduceSum(builder, ones, axes), "count");
  Moments m;
  const Output sum = builder.SumOverClones(ops::ReduceSum(builder, x, axes), "sum");
  m.mean = ops::Div(builder, sum, count);
  m.centered = ops::Sub(builder, x, BesideImages(builder, m.mean, x));
  const Output squares = builder.SumOverClones(
      ops::ReduceSum(builder, ops::Square(builder, m.centered), axes), "squares");
  m.variance = ops::Div(builder, squares, count);
  const Output one = ops::Constant(builder, 1, x.dtype());
  const Output others = builder.Op("Maximum", {ops::Sub(builder, count, one), one});
  m.unbiased_variance = ops::Div(builder, squares, others);
  return m;
}

Output SynchronizedBatchNorm(GraphBuilder& builder, Output x, Output scale, Output offset,
                             double epsilon, Output moving_mean, Output moving_variance) {
  const Moments m = MomentsOfClones(builder, x);
  if (!builder.status().ok()) return {};
  const Output variance = ops::Add(builder, m.variance, ops::Constant(builder, epsilon, x.dtype()));
  const Output inverse = builder.Op("Reciprocal", {builder.Op("Sqrt", {variance})});
  const Output factor = ops::Mul(builder, inverse, scale);
  builder.AddUpdateOp(moving_mean, m.mean);
  builder.AddUpdateOp(moving_variance, m.unbiased_variance);
  return ops::Add(builder, ops::Mul(builder, m.centered, BesideImages(builder, factor, x)),
                  BesideImages(builder, offset, x));
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
  if (options.sync_clones && options.is_training && builder.num_clones() > 1) {
    return SynchronizedBatchNorm(builder, x, scale, offset, options.epsilon, mean, variance);
  }
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
