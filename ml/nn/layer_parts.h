// Helpers that the files of layers share: scopes, checks, parameters. Private to ml/nn.
#ifndef SHOAL_ML_NN_LAYER_PARTS_H_
#define SHOAL_ML_NN_LAYER_PARTS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"
#include "ml/tensor/initializer.h"

namespace shoal {

inline constexpr char kImages[] = "images [batch, channels, height, width]";

// The scope itself, or the first unused of default_name, default_name_1, ...
GraphBuilder::Scope LayerScope(GraphBuilder& builder, const std::string& scope,
                               absl::string_view default_name);

// False, with an error in the builder that says what is wanted, if x is not valid or has the wrong
// rank.
bool CheckInput(GraphBuilder& builder, Output x, int min_rank, int max_rank,
                absl::string_view wanted);
bool CheckPositive(GraphBuilder& builder, absl::string_view field, int64_t value);
// The error "<scope> <field>: <message>".
void FailLayer(GraphBuilder& builder, absl::string_view field, absl::string_view message);

// A trainable variable without regularization.
Output MakeParameter(GraphBuilder& builder, const std::string& name, const TensorSpec& spec,
                     const InitializerSpec& initializer);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LAYER_PARTS_H_
