#include "ml/nn/layers.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "ml/graph/ops.h"
#include "ml/nn/layer_parts.h"

namespace shoal {
Output Activate(GraphBuilder& builder, Output x, Activation activation) {
  switch (activation) {
    case Activation::kNone:
      return x;
    case Activation::kRelu:
      return builder.Op("Relu", {x});
    case Activation::kRelu6:
      return ops::Clip(builder, x, 0, 6);
    case Activation::kLeakyRelu:
      return builder.Op("LeakyRelu", {x}, {{"alpha", 0.01}});
    case Activation::kElu:
      return builder.Op("Elu", {x}, {{"alpha", 1.0}});
    case Activation::kGelu:
      return builder.Op("Gelu", {x});
    case Activation::kSilu:
      return builder.Op("Silu", {x});
    case Activation::kSigmoid:
      return builder.Op("Sigmoid", {x});
    case Activation::kSoftmax:
      return builder.Op("Softmax", {x});
    case Activation::kSoftplus:
      return builder.Op("Softplus", {x});
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

Output ReshapeExamples(GraphBuilder& builder, Output x, const std::vector<int64_t>& shape) {
  if (!CheckInput(builder, x, 1, Shape::kMaxRank, "[batch, ...]")) return {};
  std::vector<int64_t> target = {0};
  target.insert(target.end(), shape.begin(), shape.end());
  return ops::Reshape(builder, x, std::move(target));
}

Output Dropout(GraphBuilder& builder, Output x, const DropoutOptions& options) {
  const auto scope = LayerScope(builder, options.scope, "Dropout");
  if (!(options.rate >= 0 && options.rate < 1)) {
    FailLayer(builder, "rate", absl::StrCat("must be in [0, 1), is ", options.rate));
    return {};
  }
  if (!options.is_training || options.rate == 0) return x;
  const auto op_id = static_cast<int64_t>(Fingerprint64(builder.variable_scope()));
  return ops::Dropout(builder, x, options.rate, op_id);
}

Output Embedding(GraphBuilder& builder, Output ids, const EmbeddingOptions& options) {
  const auto scope = LayerScope(builder, options.scope, "Embedding");
  if (!CheckInput(builder, ids, 1, Shape::kMaxRank - 1, "ids [batch, ...]")) return {};
  if (!CheckPositive(builder, "rows", options.rows)) return {};
  if (!CheckPositive(builder, "units", options.units)) return {};
  VariableSpec spec;
  spec.name = "embeddings";
  spec.shape = Shape({options.rows, options.units});
  spec.initializer = options.initializer.value_or(UniformInitializer(-0.05, 0.05));
  const Output table = builder.GetVariable(std::move(spec), options.weight_decay);
  if (ids.dtype() != DataType::kInt64) ids = ops::Cast(builder, ids, DataType::kInt32);
  return ops::Gather(builder, table, ids);
}

}  // namespace shoal
