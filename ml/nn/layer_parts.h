// Helpers that the layers share: scopes, checks and parameters. Private to ml/nn.
#ifndef SHOAL_ML_NN_LAYER_PARTS_H_
#define SHOAL_ML_NN_LAYER_PARTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"
#include "ml/tensor/initializer.h"

namespace shoal {

inline constexpr char kImages[] = "images [batch, channels, height, width]";

// Opens the scope or, if it is empty, the first unused one of default_name, default_name_1, ...
GraphBuilder::Scope LayerScope(GraphBuilder& builder, const std::string& scope,
                               absl::string_view default_name);

// Checks that x is valid and its rank is in [min_rank, max_rank]. Otherwise returns false and sets
// an error in the builder that contains `wanted`, a description of the expected input.
bool CheckInput(GraphBuilder& builder, Output x, int min_rank, int max_rank,
                absl::string_view wanted);
// Checks that the value is above 0. Otherwise returns false and calls FailLayer.
bool CheckPositive(GraphBuilder& builder, absl::string_view field, int64_t value);
// Sets the error "<scope> <field>: <message>" in the builder.
void FailLayer(GraphBuilder& builder, absl::string_view field, absl::string_view message);

// Returns the trainable variable of this name in the open variable scope, without regularization:
// makes it, or finds the one that is there, as the scope allows (GraphBuilder::GetVariable).
Output MakeParameter(GraphBuilder& builder, const std::string& name, const TensorSpec& spec,
                     const InitializerSpec& initializer);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LAYER_PARTS_H_
