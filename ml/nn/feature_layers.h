// Layers for columns of ids and for the vectors that tables give them, as in models of clicks.
//
//   const Output item = TableEmbedding(builder, FindField(fields, batch, "item"),
//                                      {.table = "items", .column = "item", .dim = 16});
//   Output net = DotInteraction(builder, {bottom, item, user});
#ifndef SHOAL_ML_NN_FEATURE_LAYERS_H_
#define SHOAL_ML_NN_FEATURE_LAYERS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ml/graph/graph_builder.h"
#include "ml/nn/model.h"
#include "ml/tensor/initializer.h"

namespace shoal {

enum class Pooling {
  kSum,   // the sum of the rows, each times the weight of its id if the column has weights
  kMean,  // the same sum, divided by the number of ids or, if the column has weights, by their sum
};

struct TableEmbeddingOptions {
  std::string table;
  std::string column;  // the field with the ids
  int64_t dim = 0;     // the length of a row in floats; the same in all uses of the table
  Pooling pooling = Pooling::kSum;
};
// Looks up a column of ids in a table on the parameter servers: [batch, dim]. If the field is
// ragged, the rows of an example's ids are pooled, and an example without ids gets zeros. If it is
// a dense int64 field [batch], each example gets the row of its id.
Output TableEmbedding(GraphBuilder& builder, const FieldPlaceholders& field,
                      const TableEmbeddingOptions& options);

// Returns the first vector followed by the dot products of all pairs of vectors (DLRM): [batch, dim
// + n * (n - 1) / 2] for n vectors [batch, dim]. If `only_products`, the first vector is left out:
// [batch, n * (n - 1) / 2].
Output DotInteraction(GraphBuilder& builder, const std::vector<Output>& vectors,
                      bool only_products = false);

struct CrossOptions {
  std::optional<InitializerSpec> weights_initializer = {};  // default: Glorot uniform
  InitializerSpec bias_initializer = {};                    // zeros
  double weight_decay = 0;
  std::string scope = "";  // default: cross, cross_1, ...
};
// One layer of a deep and cross network, version 2: x0 * (W x + b) + x for x0 and x [batch, n].
Output CrossLayer(GraphBuilder& builder, Output x0, Output x, const CrossOptions& options);

}  // namespace shoal

#endif  // SHOAL_ML_NN_FEATURE_LAYERS_H_
