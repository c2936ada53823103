// First values that a layer's config asks for. Private to ml/nn.
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

// For a variable of this shape. InvalidArgument without a distribution, for Glorot and He with
// numbers, and for numbers that are not finite or out of order.
absl::StatusOr<InitializerSpec> MakeLayerInitializer(const v1::LayerInitializer& config,
                                                     const Shape& shape);

// Those of the layer of this name, whose weights have this shape; what is not given stays as it is.
// False, with an error in the builder, if one of them is wrong.
bool ReadInitializers(GraphBuilder& builder, const std::string& name, const v1::LayerConfig& layer,
                      const Shape& weights, std::optional<InitializerSpec>* weights_initializer,
                      InitializerSpec* biases_initializer);

}  // namespace shoal

#endif  // SHOAL_ML_NN_LAYER_INITIALIZER_H_
