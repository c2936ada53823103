#include "ml/nn/layers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "ml/graph/ops.h"

namespace shoal {
namespace {

GraphBuilder::Scope LayerScope(GraphBuilder& builder, const std::string& scope,
                               absl::string_view default_name) {
  return scope.empty() ? builder.WithDefaultVariableScope(default_name)
                       : builder.WithVariableScope(scope);
}

// False, with an error in the builder, if x is not valid or has the wrong rank.
bool CheckInput(GraphBuilder& builder, Output x, int min_rank, int max_rank,
                absl::string_view wanted) {
  if (!builder.status().ok()) return false;
  if (x.valid() && x.shape().rank() >= min_rank && x.shape().rank() <= max_rank) return true;
  builder.SetError(absl::InvalidArgumentError(
      absl::StrCat(builder.variable_scope(), ": the layer needs ", wanted, ", has ",
                   x.valid() ? x.shape().ToString() : "no input")));
  return false;
}

bool CheckPositive(GraphBuilder& builder, absl::string_view field, int64_t value) {
  if (value > 0) return true;
  builder.SetError(absl::InvalidArgumentError(
      absl::StrCat(builder.variable_scope(), " ", field, ": must be positive, is ", value)));
  return false;
}

Output MakeBias(GraphBuilder& builder, const std::string& name, const Shape& shape, DataType dtype,
                const InitializerSpec& initializer) {
  VariableSpec spec;
  spec.name = name;
  spec.shape = shape;
  spec.dtype = dtype;
  spec.initializer = initializer;
  return builder.GetVariable(std::move(spec));
}

// Padding in front and behind so that the window visits ceil(size / stride) places; what is odd
// goes behind, as TensorFlow does.
std::pair<int64_t, int64_t> SamePadding(int64_t size, int64_t kernel, int64_t stride) {
  const int64_t places = (size + stride - 1) / stride;
  const int64_t total = std::max<int64_t>(0, (places - 1) * stride + kernel - size);
  return {total / 2, total - total / 2};
}

Attributes WindowAttributes(Output images, int64_t kernel, int64_t stride, bool same_padding) {
  std::vector<int64_t> pads = {0, 0, 0, 0};
  for (int i = 0; same_padding && i < 2; ++i) {
    std::tie(pads[i], pads[i + 2]) = SamePadding(images.shape().dim(2 + i), kernel, stride);
  }
  return {{"strides", std::vector<int64_t>{stride, stride}}, {"pads", std::move(pads)}};
}

Attributes PoolAttributes(Output images, const PoolOptions& options) {
  const int64_t stride = options.stride == 0 ? options.kernel : options.stride;
  Attributes attributes = WindowAttributes(images, options.kernel, stride, options.same_padding);
  attributes.Set("kernel_shape", std::vector<int64_t>{options.kernel, options.kernel});
  return attributes;
}

}  // namespace

Output Activate(GraphBuilder& builder, Output x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return builder.Op("Relu", {x});
    case Activation::kSigmoid:
      return builder.Op("Sigmoid", {x});
    case Activation::kTanh:
      return builder.Op("Tanh", {x});
  }
  return x;
}

Output Dense(GraphBuilder& builder, Output x, const DenseOptions& options) {
  const auto scope = LayerScope(builder, options.scope, "fully_connected");
  if (!CheckInput(builder, x, 2, Shape::kMaxRank, "[batch, features]")) return {};
  if (!CheckPositive(builder, "units", options.units)) return {};
  x = Flatten(builder, x);
  if (!x.valid() || !CheckPositive(builder, "input features", x.shape().dim(1))) return {};
  VariableSpec weights;
  weights.name = options.weights_name;
  weights.shape = Shape({x.shape().dim(1), options.units});
  weights.dtype = x.dtype();
  weights.initializer =
      options.weights_initializer.value_or(GlorotUniformInitializer(FanOf(weights.shape.dims())));
  const Output w = builder.GetVariable(std::move(weights), options.weight_decay);
  Output y = ops::MatMul(builder, x, w);
  if (options.use_bias) {
    const Shape shape = options.scalar_bias ? Shape() : Shape({options.units});
    y = ops::Add(builder, y,
                 MakeBias(builder, options.bias_name, shape, x.dtype(), options.bias_initializer),
                 "BiasAdd");
  }
  return Activate(builder, y, options.activation);
}

Output Conv2d(GraphBuilder& builder, Output images, const ConvOptions& options) {
  const auto scope = LayerScope(builder, options.scope, "Conv");
  if (!CheckInput(builder, images, 4, 4, "images [batch, channels, height, width]")) return {};
  for (const auto& [field, value] : {std::pair<const char*, int64_t>{"channels", options.channels},
                                     {"kernel", options.kernel},
                                     {"stride", options.stride},
                                     {"groups", options.groups}}) {
    if (!CheckPositive(builder, field, value)) return {};
  }
  VariableSpec weights;
  weights.name = "weights";
  weights.shape = Shape(
      {options.channels, images.shape().dim(1) / options.groups, options.kernel, options.kernel});
  weights.dtype = images.dtype();
  const Fan fan = FanOf(weights.shape.dims());
  weights.initializer = options.weights_initializer.value_or(options.activation == Activation::kRelu
                                                                 ? HeNormalInitializer(fan)
                                                                 : GlorotUniformInitializer(fan));
  std::vector<Output> inputs = {images,
                                builder.GetVariable(std::move(weights), options.weight_decay)};
  if (options.use_bias) {
    inputs.push_back(MakeBias(builder, "biases", Shape({options.channels}), images.dtype(),
                              options.bias_initializer));
  }
  Attributes attributes =
      WindowAttributes(images, options.kernel, options.stride, options.same_padding);
  attributes.Set("group", options.groups);
  return Activate(builder, builder.Op("Conv", std::move(inputs), std::move(attributes)),
                  options.activation);
}

Output MaxPool(GraphBuilder& builder, Output images, const PoolOptions& options) {
  if (!CheckInput(builder, images, 4, 4, "images [batch, channels, height, width]")) return {};
  return builder.Op("MaxPool", {images}, PoolAttributes(images, options));
}

Output AveragePool(GraphBuilder& builder, Output images, const PoolOptions& options) {
  if (!CheckInput(builder, images, 4, 4, "images [batch, channels, height, width]")) return {};
  return builder.Op("AveragePool", {images}, PoolAttributes(images, options));
}

Output Flatten(GraphBuilder& builder, Output x) {
  if (!x.valid() || x.shape().rank() == 2) return x;
  return ops::Reshape(builder, x, {0, -1});
}

namespace {

// A parameter per channel, or the constant it has if it is not wanted.
Output ChannelParameter(GraphBuilder& builder, bool is_wanted, const std::string& name,
                        double value, const TensorSpec& channels) {
  if (!is_wanted) return ops::Constant(builder, value, channels.dtype, channels.shape);
  return MakeBias(builder, name, channels.shape, channels.dtype, ConstantInitializer(value));
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
  const Output scale = ChannelParameter(builder, options.use_scale, "gamma", 1, channels);
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

}  // namespace shoal
