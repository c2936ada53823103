#include "ml/nn/feature_layers.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "ml/graph/ops.h"
#include "ml/nn/layer_parts.h"
#include "ml/nn/layers.h"

namespace shoal {

Output TableEmbedding(GraphBuilder& builder, const FieldPlaceholders& field,
                      const TableEmbeddingOptions& options) {
  const auto refused = [&](absl::string_view why) {
    builder.SetError(
        absl::InvalidArgumentError(absl::StrCat("column ", options.column, ": ", why)));
    return Output();
  };
  if (!field.values.valid() && !field.offsets.valid()) {
    return refused("the data has no field of this name");
  }
  const bool has_one_id = field.values.valid();
  if (has_one_id &&
      (field.values.dtype() != DataType::kInt64 || field.values.shape().rank() != 1)) {
    return refused(
        absl::StrCat("a table needs int64 ids, one for each example or a ragged field, "
                     "but the field is ",
                     field.values.spec().ToString()));
  }
  const Output rows = builder.TableRows(options.table, options.dim);
  const Output indices = builder.TableIndices(options.table, options.column);
  if (has_one_id) return ops::Gather(builder, rows, indices);
  return ops::EmbeddingBag(builder, rows, indices, field.offsets, field.weights,
                           options.pooling == Pooling::kMean);
}

Output DotInteraction(GraphBuilder& builder, const std::vector<Output>& vectors,
                      bool only_products) {
  const Output products = ops::PairwiseDots(builder, vectors);
  if (only_products || !products.valid()) return products;
  return ops::Concat(builder, {vectors[0], products}, 1);
}

Output CrossLayer(GraphBuilder& builder, Output x0, Output x, const CrossOptions& options) {
  if (!CheckInput(builder, x0, 2, 2, "[batch, features]")) return {};
  DenseOptions dense;
  dense.units = x0.shape().dim(1);
  dense.weights_initializer = options.weights_initializer;
  dense.bias_initializer = options.bias_initializer;
  dense.weight_decay = options.weight_decay;
  const auto scope = LayerScope(builder, options.scope, "cross");
  dense.scope = "dense";
  return ops::Add(builder, ops::Mul(builder, x0, Dense(builder, x, dense)), x);
}

}  // namespace shoal
