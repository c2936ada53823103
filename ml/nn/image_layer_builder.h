// Functions that build the layers of images from their configs. Errors go to the builder's status
// and name the layer.
#ifndef SHOAL_ML_NN_IMAGE_LAYER_BUILDER_H_
#define SHOAL_ML_NN_IMAGE_LAYER_BUILDER_H_

#include <string>

#include "ml/graph/graph_builder.h"
#include "ml/nn/layers.h"

namespace shoal {

namespace v1 {
class BatchNormLayer;
class ConvolutionLayer;
class LayerConfig;
class LayerNormLayer;
class LocalResponseNormLayer;
class PoolLayer;
class TransposedConvolutionLayer;
}  // namespace v1

// The settings that a layer takes from the model around it.
struct LayerContext {
  GraphBuilder& builder;
  const std::string& name;  // the scope of its variables
  double weight_decay;
  bool is_training;
  const v1::LayerConfig& layer;
};

Output BuildConvolutionLayer(const v1::ConvolutionLayer& layer, Activation activation,
                             const LayerContext& context, Output input);
Output BuildTransposedConvolutionLayer(const v1::TransposedConvolutionLayer& layer,
                                       Activation activation, const LayerContext& context,
                                       Output input);
Output BuildLayerNormLayer(const v1::LayerNormLayer& layer, const LayerContext& context,
                           Output input);
Output BuildLocalResponseNormLayer(const v1::LocalResponseNormLayer& layer,
                                   const LayerContext& context, Output input);
Output BuildPoolLayer(const v1::PoolLayer& layer, const LayerContext& context, Output input);
Output BuildBatchNormLayer(const v1::BatchNormLayer& layer, Activation activation,
                           const LayerContext& context, Output input);

}  // namespace shoal

#endif  // SHOAL_ML_NN_IMAGE_LAYER_BUILDER_H_
