// The models that runs name, as nodes of a graph.
#ifndef SHOAL_ML_NN_ZOO_H_
#define SHOAL_ML_NN_ZOO_H_

#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"
#include "ml/nn/zoo_layers.h"

namespace shoal::zoo {

// Adds the model with this name to the graph and returns its predictions for `input`, [batch, ...].
// Variables are named as in the model's layers (`shoal model NAME` prints them). Errors, such as an
// unknown name, go to the builder's status.
Output Build(GraphBuilder& builder, absl::string_view name, Output input,
             const ModelOptions& options);

// The same model without its last layer, for a head of one's own. Of "resnet50" it returns features
// [batch, 2048], of "resnet18" [batch, 512], of "mobilenet_v2" [batch, 1280], more with a
// width_multiplier above 1. Variables have the names that they have in the whole model.
Output BuildFeatures(GraphBuilder& builder, absl::string_view name, Output input,
                     const ModelOptions& options);

// The same networks without their last layer, for a head of one's own: images to features [batch,
// 512] (ResNet18), [batch, 2048] (ResNet50), [batch, 1280] (MobileNetV2; more with a
// width_multiplier above 1). Their variables have the names that they have in the whole networks.
Output ResNet18Features(GraphBuilder& builder, Output images, const ModelOptions& model);
Output ResNet50Features(GraphBuilder& builder, Output images, const ModelOptions& model);
Output MobileNetV2Features(GraphBuilder& builder, Output images, const ModelOptions& model);

}  // namespace shoal::zoo

#endif  // SHOAL_ML_NN_ZOO_H_
