// Reads the initial values from a layer's config. Private to ml/nn.
#ifndef SHOAL_ML_NN_LAYER_INITIALIZER_H_
#define SHOAL_ML_NN_LAYER_INITIALIZER_H_

#include <optional>
#include <string>

#include "absl/status/statusor.h"

#include "ml/graph/graph_builder.h"
#include "ml/tensor/initializer.h"
#include "ml/tensor/shape.h"

namespace shoal {

namespace v1 {
class LayerConfig;
class LayerInitializer;
}  // namespace v1

// Returns the initializer of a variable of this shape. InvalidArgument if the config names no
// distribution, gives numbers for Glorot or He, or has numbers that are not finite or out of order.
absl::StatusOr<InitializerSpec> MakeLayerInitializer(const v1::LayerInitializer& config,
                                                     const Shape& shape);

// Reads the initializers of the layer `name`, whose weights have the shape `weights`. An
// initializer that the config does not set is not changed. Returns false, and sets an error in the
// builder, if one is invalid.
bool ReadInitializers(GraphBuilder& builder, const std::string& name, const v1::LayerConfig& layer,
                      const Shape& weights, std::optional<InitializerSpec>* weights_initializer,
                      InitializerSpec* biases_initializer);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LAYER_INITIALIZER_H_
