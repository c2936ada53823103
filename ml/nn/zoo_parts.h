// The parts of the zoo's convolutional models. Private to ml/nn.
#ifndef SHOAL_ML_NN_ZOO_PARTS_H_
#define SHOAL_ML_NN_ZOO_PARTS_H_

#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"
#include "ml/nn/convolution_layers.h"
#include "ml/nn/layers.h"
#include "ml/nn/normalization_layers.h"
#include "ml/nn/zoo.h"

namespace shoal::zoo {

// Options as most layers have them.
DenseOptions DenseLayer(absl::string_view scope, int64_t units, Activation activation,
                        double weight_decay);
ConvOptions ConvLayer(absl::string_view scope, int64_t channels, const Size2& kernel,
                      Activation activation, double weight_decay);

// A convolution without bias, batch norm, activation. Variables <scope>/weights and
// <scope>/BatchNorm/{beta, gamma, moving_mean, moving_variance}.
struct ConvNormOptions {
  ConvOptions convolution;  // its scope, bias, activation and weight decay are set here
  bool is_depthwise = false;
  Activation activation = Activation::kNone;
  BatchNormOptions norm;
};
Output ConvNorm(GraphBuilder& builder, Output images, absl::string_view scope,
                ConvNormOptions options, const ModelOptions& model);

}  // namespace shoal::zoo

#endif  // SHOAL_ML_NN_ZOO_PARTS_H_
