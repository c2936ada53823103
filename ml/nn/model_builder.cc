#include "ml/nn/model_builder.h"

#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/graph/ops.h"
#include "ml/nn/layers.h"
#include "ml/nn/losses.h"
#include "ml/nn/zoo.h"
#include "proto/v1/model_config.pb.h"

namespace shoal {
namespace {

Activation ActivationOf(v1::ActivationKind kind) {
  switch (kind) {
    case v1::ACTIVATION_KIND_RELU:
      return Activation::kRelu;
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
    case v1::LayerConfig::LAYER_NOT_SET:
      break;
  }
  return "";
}

// The layers of a config, one after the other.
class LayerStack {
 public:
  LayerStack(GraphBuilder& builder, const v1::ModelConfig& config, bool is_training)
      : builder_(builder), config_(config), is_training_(is_training) {}

  Output Build(Output input);

 private:
  std::string NameOf(const v1::LayerConfig& layer);
  Output InputOf(const v1::LayerConfig& layer, const std::string& name, Output previous);
  Output BuildLayer(const v1::LayerConfig& layer, const std::string& name, Output input);
  Output BuildDense(const v1::DenseLayer& layer, const std::string& name, Output input);
  Output BuildConvolution(const v1::ConvolutionLayer& layer, const std::string& name, Output input);
  Output BuildBatchNorm(const v1::BatchNormLayer& layer, const std::string& name, Output input);
  void Fail(const std::string& name, absl::string_view message) {
    builder_.SetError(
        absl::InvalidArgumentError(absl::StrCat("model.layer '", name, "': ", message)));
  }

  GraphBuilder& builder_;
  const v1::ModelConfig& config_;
  const bool is_training_;
  std::map<std::string, Output> outputs_;
  std::map<std::string, int> num_of_kind_;
};

std::string LayerStack::NameOf(const v1::LayerConfig& layer) {
  const std::string kind = KindOf(layer);
  const int number = ++num_of_kind_[kind];
  return layer.name().empty() ? absl::StrCat(kind, number) : layer.name();
}

Output LayerStack::InputOf(const v1::LayerConfig& layer, const std::string& name, Output previous) {
  if (layer.input().empty()) return previous;
  std::vector<Output> inputs;
  for (const std::string& input : layer.input()) {
    const auto it = outputs_.find(input);
    if (it == outputs_.end()) {
      Fail(name, absl::StrCat("input '", input, "' is not the name of an earlier layer"));
      return {};
    }
    inputs.push_back(it->second);
  }
  return inputs.size() == 1 ? inputs[0]
                            : builder_.Op("Concat", std::move(inputs), {{"axis", int64_t{1}}});
}

Output LayerStack::BuildDense(const v1::DenseLayer& layer, const std::string& name, Output input) {
  DenseOptions options;
  options.scope = name;
  options.units = layer.units();
  options.activation = ActivationOf(layer.activation());
  options.use_bias = !layer.no_bias();
  options.scalar_bias = layer.scalar_bias();
  options.weight_decay = config_.weight_decay();
  return Dense(builder_, input, options);
}

Output LayerStack::BuildConvolution(const v1::ConvolutionLayer& layer, const std::string& name,
                                    Output input) {
  ConvOptions options;
  options.scope = name;
  options.channels = layer.channels();
  options.kernel = layer.kernel();
  options.stride = layer.stride() == 0 ? 1 : layer.stride();
  options.same_padding = !layer.valid_padding();
  options.activation = ActivationOf(layer.activation());
  options.use_bias = !layer.no_bias();
  options.weight_decay = config_.weight_decay();
  return Conv2d(builder_, input, options);
}

Output LayerStack::BuildBatchNorm(const v1::BatchNormLayer& layer, const std::string& name,
                                  Output input) {
  BatchNormOptions options;
  options.scope = name;
  options.is_training = is_training_;
  if (layer.has_decay()) options.decay = layer.decay();
  if (layer.has_epsilon()) options.epsilon = layer.epsilon();
  if (!(options.decay >= 0 && options.decay <= 1) || !(options.epsilon > 0)) {
    Fail(name, "batch_norm needs a decay in [0, 1] and a positive epsilon");
    return {};
  }
  return Activate(builder_, BatchNorm(builder_, input, options), ActivationOf(layer.activation()));
}

Output LayerStack::BuildLayer(const v1::LayerConfig& layer, const std::string& name, Output input) {
  switch (layer.layer_case()) {
    case v1::LayerConfig::kDense:
      return BuildDense(layer.dense(), name, input);
    case v1::LayerConfig::kConvolution:
      return BuildConvolution(layer.convolution(), name, input);
    case v1::LayerConfig::kPool: {
      const PoolOptions options{layer.pool().kernel(), layer.pool().stride(), false};
      return layer.pool().average() ? AveragePool(builder_, input, options)
                                    : MaxPool(builder_, input, options);
    }
    case v1::LayerConfig::kBatchNorm:
      return BuildBatchNorm(layer.batch_norm(), name, input);
    case v1::LayerConfig::kFlatten:
      return Flatten(builder_, input);
    case v1::LayerConfig::kActivation:
      return Activate(builder_, input, ActivationOf(layer.activation().kind()));
    case v1::LayerConfig::LAYER_NOT_SET:
      break;
  }
  Fail(name, "says no kind; give it dense, convolution, pool, batch_norm, flatten or activation");
  return {};
}

Output LayerStack::Build(Output input) {
  outputs_["input"] = input;
  for (const v1::LayerConfig& layer : config_.layer()) {
    const std::string name = NameOf(layer);
    const Output from = InputOf(layer, name, input);
    if (!builder_.status().ok()) return {};
    input = BuildLayer(layer, name, from);
    if (!builder_.status().ok()) return {};
    if (!outputs_.emplace(name, input).second) Fail(name, "the name is used twice");
  }
  return input;
}

struct ZooModel {
  const char* name;
  LossKind loss;
};

constexpr ZooModel kZoo[] = {
    {"fashion_cnn", LossKind::kSparseSoftmaxCrossEntropy},
    {"mlp", LossKind::kSparseSoftmaxCrossEntropy},
    {"seed_mlp", LossKind::kMeanSquaredError},
    {"softmax_regression", LossKind::kSparseSoftmaxCrossEntropy},
    {"linear", LossKind::kMeanSquaredError},
};

Output BuildPredictions(GraphBuilder& builder, const v1::ModelConfig& config, Output input,
                        int64_t classes, bool is_training) {
  const std::string& name = config.name();
  const double decay = config.weight_decay();
  if (name == "fashion_cnn") return zoo::FashionCnn(builder, input, classes, decay);
  if (name == "mlp") return zoo::Mlp(builder, input, classes, decay);
  if (name == "seed_mlp") return zoo::SeedMlp(builder, input, decay);
  if (name == "softmax_regression") return zoo::SoftmaxRegression(builder, input, classes, decay);
  if (name == "linear") return zoo::Linear(builder, input, decay);
  return LayerStack(builder, config, is_training).Build(input);
}

absl::StatusOr<LossKind> LossOf(const v1::ModelConfig& config) {
  if (!config.loss().empty()) return ParseLossKind(config.loss());
  for (const ZooModel& model : kZoo) {
    if (config.name() == model.name) return model.loss;
  }
  return LossKind::kSparseSoftmaxCrossEntropy;
}

// Classes become numbers of the predictions' type and shape where the loss compares numbers.
Output LabelsFor(GraphBuilder& builder, LossKind loss, Output predictions, Output labels) {
  if (loss == LossKind::kSparseSoftmaxCrossEntropy || !predictions.valid() ||
      predictions.dtype() == labels.dtype()) {
    return labels;
  }
  labels = builder.Op("Cast", {labels}, {{"to", static_cast<int64_t>(predictions.dtype())}});
  const bool is_column = predictions.shape().rank() == 2 && predictions.shape().dim(1) == 1;
  return is_column && labels.valid() && labels.shape().rank() == 1
             ? ops::Reshape(builder, labels, {0, 1})
             : labels;
}

absl::Status CheckConfig(const v1::ModelConfig& config, const std::vector<FieldSpec>& fields) {
  std::string names;
  bool is_known = config.name().empty() && !config.layer().empty();
  for (const ZooModel& model : kZoo) {
    is_known |= config.name() == model.name;
    absl::StrAppend(&names, names.empty() ? "" : ", ", model.name);
  }
  if (!is_known) {
    return absl::InvalidArgumentError(absl::StrCat("model.name: unknown model '", config.name(),
                                                   "'; known are ", names,
                                                   "; or leave it empty and list model.layer"));
  }
  if (!config.name().empty() && !config.layer().empty()) {
    return absl::InvalidArgumentError("model: give either a name or layers, not both");
  }
  if (!(config.weight_decay() >= 0)) {
    return absl::InvalidArgumentError("model.weight_decay: must be a number >= 0");
  }
  if (fields.size() < 2) {
    return absl::InvalidArgumentError("model: the data set has no labels or targets");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<ModelFunction> MakeModel(const v1::ModelConfig& config,
                                        const std::vector<FieldSpec>& fields, int64_t classes) {
  RETURN_IF_ERROR(CheckConfig(config, fields));
  ASSIGN_OR_RETURN(LossKind loss, LossOf(config));
  if (loss == LossKind::kSoftmaxCrossEntropy && !IsFloating(fields[1].example.dtype)) {
    loss = LossKind::kSparseSoftmaxCrossEntropy;
  }
  ModelFunction model = [config, classes, loss](GraphBuilder& builder,
                                                absl::Span<const Output> batch, bool is_training) {
    ModelOutputs outputs;
    outputs.predictions = BuildPredictions(builder, config, batch[0], classes, is_training);
    const Output labels = LabelsFor(builder, loss, outputs.predictions, batch[1]);
    outputs.loss = AddLoss(builder, loss, outputs.predictions, labels);
    if (loss == LossKind::kSparseSoftmaxCrossEntropy) {
      outputs.correct_count = CorrectCount(builder, outputs.predictions, labels);
    }
    return outputs;
  };
  Graph graph;
  GraphBuilder builder(&graph);
  model(builder, InputQueue(fields).Dequeue(builder), true);
  if (!builder.status().ok()) {
    return absl::InvalidArgumentError(absl::StrCat("model: ", builder.status().message()));
  }
  return model;
}

}  // namespace shoal
