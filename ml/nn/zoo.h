// Builds the models of the zoo, which run files can name, as nodes of a graph.
#ifndef SHOAL_ML_NN_ZOO_H_
#define SHOAL_ML_NN_ZOO_H_

#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"
#include "ml/nn/features.h"
#include "ml/nn/zoo_layers.h"

namespace shoal::zoo {

// Adds the model with this name to the graph and returns its predictions for `input`, [batch, ...],
// and for `features`, which models of clicks need; without a dense field, `input` is not valid.
// Variables are named as in the model's layers (`shoal model NAME` prints them). Errors, such as an
// unknown name, go to the builder's status.
Output Build(GraphBuilder& builder, absl::string_view name, Output input,
             const ModelOptions& options, NamedOutputs features = {});

// Builds the same model without its last layer, so that the caller can add another one, and returns
// its features: [batch, 2048] for "resnet50", [batch, 512] for "resnet18", and [batch, 1280] for
// "mobilenet_v2" (more with a width_multiplier above 1). Variables have the same names as in the
// whole model.
Output BuildFeatures(GraphBuilder& builder, absl::string_view name, Output input,
                     const ModelOptions& options);

}  // namespace shoal::zoo

#endif  // SHOAL_ML_NN_ZOO_H_
