#include "ml/nn/layer_stack.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"

#include "ml/graph/ops.h"
#include "ml/nn/feature_layers.h"
#include "ml/nn/feature_names.h"
#include "ml/nn/image_layer_builder.h"
#include "ml/nn/layer_initializer.h"
#include "ml/nn/layers.h"
#include "proto/v1/model_config.pb.h"

namespace shoal {
namespace {

Activation ToActivation(v1::ActivationKind kind) {
  switch (kind) {
    case v1::ACTIVATION_KIND_RELU:
      return Activation::kRelu;
    case v1::ACTIVATION_KIND_RELU6:
      return Activation::kRelu6;
    case v1::ACTIVATION_KIND_LEAKY_RELU:
      return Activation::kLeakyRelu;
    case v1::ACTIVATION_KIND_ELU:
      return Activation::kElu;
    case v1::ACTIVATION_KIND_GELU:
      return Activation::kGelu;
    case v1::ACTIVATION_KIND_SILU:
      return Activation::kSilu;
    case v1::ACTIVATION_KIND_SOFTMAX:
      return Activation::kSoftmax;
    case v1::ACTIVATION_KIND_SOFTPLUS:
      return Activation::kSoftplus;
    case v1::ACTIVATION_KIND_SIGMOID:
      return Activation::kSigmoid;
    case v1::ACTIVATION_KIND_TANH:
      return Activation::kTanh;
    default:
      return Activation::kNone;
  }
}

const char* KindOf(const v1::LayerConfig& layer) {
  switch (layer.layer_case()) {
    case v1::LayerConfig::kDense:
      return "dense";
    case v1::LayerConfig::kConvolution:
      return "convolution";
    case v1::LayerConfig::kPool:
      return "pool";
    case v1::LayerConfig::kBatchNorm:
      return "batch_norm";
    case v1::LayerConfig::kFlatten:
      return "flatten";
    case v1::LayerConfig::kActivation:
      return "activation";
    case v1::LayerConfig::kAdd:
      return "add";
    case v1::LayerConfig::kDropout:
      return "dropout";
    case v1::LayerConfig::kEmbedding:
      return "embedding";
    case v1::LayerConfig::kReshape:
      return "reshape";
    case v1::LayerConfig::kConcat:
      return "concat";
    case v1::LayerConfig::kTransposedConvolution:
      return "transposed_convolution";
    case v1::LayerConfig::kLayerNorm:
      return "layer_norm";
    case v1::LayerConfig::kLocalResponseNorm:
      return "local_response_norm";
    case v1::LayerConfig::kInteraction:
      return "interaction";
    case v1::LayerConfig::LAYER_NOT_SET:
      break;
  }
  return "";
}

}  // namespace

std::string LayerStack::GetName(const v1::LayerConfig& layer) {
  const std::string kind = KindOf(layer);
  const int number = ++num_of_kind_[kind];
  return layer.name().empty() ? absl::StrCat(kind, number) : layer.name();
}

void LayerStack::AppendInput(const std::string& name, const std::string& input,
                             std::vector<Output>* outputs) {
  if (const auto it = outputs_.find(input); it != outputs_.end()) {
    outputs->push_back(it->second);
    return;
  }
  const size_t before = outputs->size();
  for (const auto& [feature, vector] : features_) {
    if (StandsFor(input, feature)) outputs->push_back(vector);
  }
  if (outputs->size() > before) return;
  Fail(name, absl::StrCat("input '", input, "' is not the name of an earlier layer",
                          features_.empty() ? "" : " or a feature"));
}

std::vector<Output> LayerStack::GetInputs(const v1::LayerConfig& layer, const std::string& name,
                                          Output previous) {
  std::vector<Output> inputs;
  for (const std::string& input : layer.input()) AppendInput(name, input, &inputs);
  if (!layer.input().empty()) return inputs;
  if (previous.valid()) inputs.push_back(previous);
  if (layer.has_interaction()) {
    for (const auto& feature : features_) inputs.push_back(feature.second);
  }
  return inputs;
}

// Makes one input of several.
Output LayerStack::Merge(const v1::LayerConfig& layer, const std::string& name,
                         std::vector<Output> inputs) {
  for (const Output& input : inputs) {
    if (input.valid()) continue;
    Fail(name, "'input' names a dense input, but the data has none; name features or layers");
    return {};
  }
  if (inputs.empty()) {
    Fail(name, "has no input, because the data has no dense field; name features with `input`");
    return {};
  }
  if (layer.has_interaction()) return BuildInteraction(layer, name, std::move(inputs));
  if (layer.has_add() && layer.input_size() > 0) {
    if (!CheckWidths(name, inputs)) return {};
    const bool is_pair = inputs.size() == 2 && inputs[0].shape() == inputs[1].shape();
    return is_pair ? ops::Add(builder_, inputs[0], inputs[1])
                   : ops::AddN(builder_, std::move(inputs));
  }
  if (inputs.size() == 1) return inputs[0];
  const int64_t axis = layer.concat().has_axis() ? layer.concat().axis() : 1;
  if (axis == 0) {
    Fail(name, "concat.axis: 0 is the batch; name another axis");
    return {};
  }
  return ops::Concat(builder_, std::move(inputs), axis);
}

std::string LayerStack::NameOf(Output input) const {
  for (const auto& [feature, vector] : features_) {
    if (vector == input) return absl::StrCat("the feature ", feature);
  }
  for (const auto& [layer, output] : outputs_) {
    if (output == input) return layer == "input" ? "the input" : absl::StrCat("the layer ", layer);
  }
  return "the layer above";
}

bool LayerStack::CheckWidths(const std::string& name, const std::vector<Output>& inputs) {
  const Output first = inputs[0];
  for (const Output& input : inputs) {
    if (!first.valid() || !input.valid() || first.shape().rank() != 2 ||
        input.shape().rank() != 2 || input.shape().dim(1) == first.shape().dim(1)) {
      continue;
    }
    Fail(name, absl::StrCat(
                   "takes vectors of one length, but ", NameOf(first), " has ",
                   first.shape().dim(1), " and ", NameOf(input), " has ", input.shape().dim(1),
                   features_.empty() ? "; change the units of a layer"
                                     : "; change the dim of the table or the units of the layer"));
    return false;
  }
  return true;
}

Output LayerStack::BuildInteraction(const v1::LayerConfig& layer, const std::string& name,
                                    std::vector<Output> inputs) {
  const v1::InteractionLayer& interaction = layer.interaction();
  if (interaction.has_cross()) {
    const Output x0 = inputs.size() == 1 ? inputs[0] : ops::Concat(builder_, inputs, 1);
    Output x = x0;
    for (uint32_t i = 0; i < std::max(interaction.cross().layers(), 1u) && x.valid(); ++i) {
      CrossOptions options;
      options.scope = absl::StrCat(name, "/cross", i + 1);
      options.weight_decay = GetWeightDecay(layer);
      const int64_t width = x0.shape().rank() == 2 ? x0.shape().dim(1) : 1;
      if (!ReadInitializers(builder_, name, layer, Shape({width, width}),
                            &options.weights_initializer, &options.bias_initializer)) {
        return {};
      }
      x = CrossLayer(builder_, x0, x, options);
    }
    return x;
  }
  if (inputs.size() < 2) {
    Fail(name, "needs two inputs or more; give the model features or name layers with `input`");
    return {};
  }
  if (!interaction.has_factorization_machine() && !interaction.has_dot()) {
    Fail(name, "has no kind; write dot {}, factorization_machine {} or cross { layers: 3 }");
    return {};
  }
  if (!CheckWidths(name, inputs)) return {};
  if (interaction.has_factorization_machine()) {
    return ops::FactorizationMachine(builder_, std::move(inputs));
  }
  return DotInteraction(builder_, inputs, interaction.dot().only_products());
}

double LayerStack::GetWeightDecay(const v1::LayerConfig& layer) const {
  return layer.has_weight_decay() ? layer.weight_decay() : config_.weight_decay();
}

// Checks that the layer sets fields only of variables that it has.
bool LayerStack::CheckParameters(const v1::LayerConfig& layer, const std::string& name) {
  const bool has_biases = layer.has_dense() || layer.has_convolution() ||
                          layer.has_transposed_convolution() || layer.interaction().has_cross();
  const bool has_weights = has_biases || layer.has_embedding();
  if (layer.has_weights_initializer() && !has_weights) {
    Fail(name, "weights_initializer: the layer has no weights");
  } else if (layer.has_weight_decay() && !has_weights) {
    Fail(name, "weight_decay: the layer has no weights");
  } else if (layer.has_biases_initializer() && !has_biases) {
    Fail(name, "biases_initializer: the layer has no biases");
  } else if (layer.has_weight_decay() && !(layer.weight_decay() >= 0)) {
    Fail(name, "weight_decay: must be a number >= 0");
  } else {
    return true;
  }
  return false;
}

Output LayerStack::BuildDense(const v1::LayerConfig& config, const std::string& name,
                              Output input) {
  const v1::DenseLayer& layer = config.dense();
  DenseOptions options;
  options.scope = name;
  options.units = layer.units();
  options.activation = ToActivation(layer.activation());
  options.use_bias = !layer.no_bias();
  options.scalar_bias = layer.scalar_bias();
  if (!layer.weights_name().empty()) options.weights_name = layer.weights_name();
  if (!layer.biases_name().empty()) options.bias_name = layer.biases_name();
  options.weight_decay = GetWeightDecay(config);
  int64_t features = 1;
  for (int d = 1; d < input.shape().rank(); ++d) features *= input.shape().dim(d);
  const bool is_read = ReadInitializers(builder_, name, config, Shape({features, options.units}),
                                        &options.weights_initializer, &options.bias_initializer);
  return is_read ? Dense(builder_, input, options) : Output();
}

Output LayerStack::BuildActivation(const v1::ActivationLayer& layer, const std::string& name,
                                   Output input) {
  if (!layer.has_alpha()) return Activate(builder_, input, ToActivation(layer.kind()));
  switch (layer.kind()) {
    case v1::ACTIVATION_KIND_LEAKY_RELU:
      return builder_.Op("LeakyRelu", {input}, {{"alpha", layer.alpha()}});
    case v1::ACTIVATION_KIND_ELU:
      return builder_.Op("Elu", {input}, {{"alpha", layer.alpha()}});
    default:
      Fail(name, "activation.alpha: only LEAKY_RELU and ELU have one");
      return {};
  }
}

Output LayerStack::BuildDropout(const v1::DropoutLayer& layer, const std::string& name,
                                Output input) {
  DropoutOptions options;
  options.scope = name;
  options.rate = layer.rate();
  options.is_training = is_training_;
  return Dropout(builder_, input, options);
}

Output LayerStack::BuildEmbedding(const v1::LayerConfig& config, const std::string& name,
                                  Output input) {
  const v1::EmbeddingLayer& layer = config.embedding();
  EmbeddingOptions options;
  options.scope = name;
  options.rows = layer.rows();
  options.units = layer.units();
  options.weight_decay = GetWeightDecay(config);
  InitializerSpec unused;
  const bool is_read = ReadInitializers(
      builder_, name, config, Shape({options.rows, options.units}), &options.initializer, &unused);
  return is_read ? Embedding(builder_, input, options) : Output();
}

Output LayerStack::BuildLayer(const v1::LayerConfig& layer, const std::string& name, Output input) {
  const LayerContext context{builder_, name, GetWeightDecay(layer), is_training_, layer};
  switch (layer.layer_case()) {
    case v1::LayerConfig::kDense:
      return BuildDense(layer, name, input);
    case v1::LayerConfig::kConvolution:
      return BuildConvolutionLayer(layer.convolution(),
                                   ToActivation(layer.convolution().activation()), context, input);
    case v1::LayerConfig::kPool:
      return BuildPoolLayer(layer.pool(), context, input);
    case v1::LayerConfig::kBatchNorm:
      return BuildBatchNormLayer(layer.batch_norm(), ToActivation(layer.batch_norm().activation()),
                                 context, input);
    case v1::LayerConfig::kTransposedConvolution:
      return BuildTransposedConvolutionLayer(
          layer.transposed_convolution(), ToActivation(layer.transposed_convolution().activation()),
          context, input);
    case v1::LayerConfig::kLayerNorm:
      return BuildLayerNormLayer(layer.layer_norm(), context, input);
    case v1::LayerConfig::kLocalResponseNorm:
      return BuildLocalResponseNormLayer(layer.local_response_norm(), context, input);
    case v1::LayerConfig::kAdd:
      return Activate(builder_, input, ToActivation(layer.add().activation()));
    case v1::LayerConfig::kFlatten:
      return Flatten(builder_, input);
    case v1::LayerConfig::kActivation:
      return BuildActivation(layer.activation(), name, input);
    case v1::LayerConfig::kDropout:
      return BuildDropout(layer.dropout(), name, input);
    case v1::LayerConfig::kEmbedding:
      return BuildEmbedding(layer, name, input);
    case v1::LayerConfig::kReshape:
      return ReshapeExamples(builder_, input,
                             {layer.reshape().shape().begin(), layer.reshape().shape().end()});
    case v1::LayerConfig::kConcat:
    case v1::LayerConfig::kInteraction:
      return input;
    case v1::LayerConfig::LAYER_NOT_SET:
      break;
  }
  Fail(name, "says no kind; give it one of those in model_config.proto, such as dense");
  return {};
}

Output LayerStack::Build(Output input, std::map<std::string, Output> named) {
  outputs_ = std::move(named);
  outputs_.emplace("input", input);
  for (int i = 0; i < config_.layer_size(); ++i) {
    const v1::LayerConfig& layer = config_.layer(i);
    const std::string kind = KindOf(layer);
    where_ =
        absl::StrCat("model.layer[", i, "]", kind.empty() ? "" : absl::StrCat(" (", kind, ")"));
    const std::string name = GetName(layer);
    if (!CheckParameters(layer, name)) return {};
    const Output from = Merge(layer, name, GetInputs(layer, name, input));
    if (!builder_.status().ok()) return {};
    input = BuildLayer(layer, name, from);
    if (!builder_.status().ok()) return {};
    if (!outputs_.emplace(name, input).second) Fail(name, "the name is used twice");
  }
  return input;
}

}  // namespace shoal
