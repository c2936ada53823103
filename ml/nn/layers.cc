#include "ml/nn/layers.h"

#include <utility>

#include "ml/graph/ops.h"
#include "ml/nn/layer_parts.h"

namespace shoal {
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
    y = ops::Add(
        builder, y,
        MakeParameter(builder, options.bias_name, {x.dtype(), shape}, options.bias_initializer),
        "BiasAdd");
  }
  return Activate(builder, y, options.activation);
}

Output Flatten(GraphBuilder& builder, Output x) {
  if (!x.valid() || x.shape().rank() == 2) return x;
  return ops::Reshape(builder, x, {0, -1});
}

}  // namespace shoal
