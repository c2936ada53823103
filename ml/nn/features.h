// The features of a run file's model: which columns of the data become vectors through which
// tables.
#ifndef SHOAL_ML_NN_FEATURES_H_
#define SHOAL_ML_NN_FEATURES_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "google/protobuf/repeated_field.h"

#include "ml/data/dataset.h"
#include "ml/graph/graph_builder.h"
#include "ml/nn/feature_layers.h"
#include "proto/v1/table_config.pb.h"

namespace shoal {

namespace v1 {
class ModelConfig;
}

using TableConfigs = google::protobuf::RepeatedPtrField<v1::TableConfig>;

struct Feature {
  std::string name;
  TableEmbeddingOptions embedding;
};

// Returns the features of a model: one for each column that an entry of the run file stands for.
// InvalidArgument names the entry, whose column is not in the data or has no ids, whose table is
// missing, or whose name another feature has.
absl::StatusOr<std::vector<Feature>> ResolveFeatures(const v1::ModelConfig& model,
                                                     const TableConfigs& tables,
                                                     const std::vector<FieldSpec>& fields);

// Outputs by name, in the order in which they were added.
using NamedOutputs = std::vector<std::pair<std::string, Output>>;

// Adds the features to the graph.
NamedOutputs BuildFeatureVectors(GraphBuilder& builder, const std::vector<Feature>& features,
                                 const std::vector<FieldSpec>& fields,
                                 absl::Span<const Output> batch);

}  // namespace shoal

#endif  // SHOAL_ML_NN_FEATURES_H_
