#include "ml/nn/zoo.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

#include "base/log.h"
#include "ml/nn/layer_stack.h"
#include "proto/v1/model_config.pb.h"

namespace shoal::zoo {

namespace {

// Builds all layers but the last `num_left_out`.
Output BuildLayers(GraphBuilder& builder, absl::string_view name, Output input,
                   const ModelOptions& options, int num_left_out) {
  const Model* model = Find(name);
  if (model == nullptr) {
    builder.SetError(absl::InvalidArgumentError(absl::StrCat("no model has the name ", name)));
    return {};
  }
  if (!input.valid()) return {};
  const Shape& shape = input.shape();
  const bool is_image = shape.rank() == 4;
  v1::ModelConfig config;
  const std::string layers =
      model->layers(options, is_image ? shape.dim(2) : 0, is_image ? shape.dim(3) : 0);
  CHECK(google::protobuf::TextFormat::ParseFromString(layers, &config)) << layers;
  config.set_weight_decay(options.weight_decay);
  for (int i = 0; i < num_left_out; ++i) config.mutable_layer()->RemoveLast();
  return LayerStack(builder, config, options.is_training).Build(input);
}

}  // namespace

Output Build(GraphBuilder& builder, absl::string_view name, Output input,
             const ModelOptions& options) {
  return BuildLayers(builder, name, input, options, /*num_left_out=*/0);
}

Output BuildFeatures(GraphBuilder& builder, absl::string_view name, Output input,
                     const ModelOptions& options) {
  return BuildLayers(builder, name, input, options, /*num_left_out=*/1);
}

}  // namespace shoal::zoo
