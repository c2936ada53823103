#include "ml/nn/model_builder.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/status_macros.h"
#include "ml/graph/ops.h"
#include "ml/nn/feature_names.h"
#include "ml/nn/features.h"
#include "ml/nn/layer_stack.h"
#include "ml/nn/losses.h"
#include "ml/nn/metric_names.h"
#include "ml/nn/metrics.h"
#include "ml/nn/zoo.h"
#include "proto/v1/model_config.pb.h"

namespace shoal {
namespace {

// The fields of a batch that a model reads.
struct ModelInputs {
  std::vector<FieldSpec> fields;
  std::vector<Feature> features;
  int input = -1;                       // the field that layers call "input"; -1: there is none
  int target = -1;                      // -1: there is none
  std::vector<std::string> names = {};  // model.input

  // Returns the placeholder of a field; not valid for -1.
  Output Of(absl::Span<const Output> batch, int field) const {
    return field < 0 ? Output()
                     : FindField(fields, batch, fields[static_cast<size_t>(field)].name).values;
  }
  // Returns the placeholders of the fields that layers can name.
  std::map<std::string, Output> Named(absl::Span<const Output> batch) const {
    std::map<std::string, Output> named;
    for (const std::string& name : names) named[name] = FindField(fields, batch, name).values;
    return named;
  }
};

bool IsDenseInput(const FieldSpec& field) { return !field.is_ragged() && !IsTarget(field); }

// The target is the first one of the fields. The input is the first field of model.input, or else
// the first dense field that is not a target; of a model with features, the first such field of
// numbers.
ModelInputs MakeModelInputs(const v1::ModelConfig& config, const std::vector<FieldSpec>& fields,
                            std::vector<Feature> features) {
  ModelInputs inputs;
  inputs.fields = fields;
  inputs.features = std::move(features);
  inputs.names.assign(config.input().begin(), config.input().end());
  for (size_t f = 0; f < fields.size() && inputs.input < 0; ++f) {
    const bool fits = inputs.names.empty()
                          ? inputs.features.empty() || IsFloating(fields[f].example.dtype)
                          : fields[f].name == inputs.names[0];
    if (IsDenseInput(fields[f]) && fits) inputs.input = static_cast<int>(f);
  }
  const size_t target = FirstTarget(fields);
  if (target < fields.size()) inputs.target = static_cast<int>(target);
  return inputs;
}

// Checks that the data has the fields of model.input.
absl::Status CheckInputs(const v1::ModelConfig& config, const std::vector<FieldSpec>& fields) {
  std::string known;
  for (const FieldSpec& field : fields) {
    if (IsDenseInput(field)) absl::StrAppend(&known, known.empty() ? "" : ", ", field.name);
  }
  for (const std::string& name : config.input()) {
    const bool is_known = std::any_of(fields.begin(), fields.end(), [&](const FieldSpec& field) {
      return field.name == name && IsDenseInput(field);
    });
    if (is_known) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "model.input: '", name, "' is not a dense input of the data, which has ", known));
  }
  return absl::OkStatus();
}

Output BuildPredictions(GraphBuilder& builder, const v1::ModelConfig& config,
                        const ModelInputs& inputs, absl::Span<const Output> batch, int64_t classes,
                        bool is_training) {
  const Output input = inputs.Of(batch, inputs.input);
  NamedOutputs features = BuildFeatureVectors(builder, inputs.features, inputs.fields, batch);
  if (!builder.status().ok()) return {};
  if (config.name().empty()) {
    return LayerStack(builder, config, is_training, std::move(features))
        .Build(input, inputs.Named(batch));
  }
  zoo::ModelOptions model;
  model.classes = classes;
  model.weight_decay = config.weight_decay();
  model.is_training = is_training;
  if (config.has_width_multiplier()) model.width_multiplier = config.width_multiplier();
  return zoo::Build(builder, config.name(), input, model, std::move(features));
}

absl::StatusOr<LossKind> ParseLoss(const v1::ModelConfig& config) {
  if (!config.loss().empty()) return ParseLossKind(config.loss());
  const zoo::Model* model = zoo::Find(config.name());
  return model == nullptr ? LossKind::kSparseSoftmaxCrossEntropy : ParseLossKind(model->loss());
}

// If the loss compares numbers, converts class labels to the type and shape of the predictions.
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

absl::Status CheckConfig(const v1::ModelConfig& config) {
  std::string names;
  const bool is_known =
      config.name().empty() ? !config.layer().empty() : zoo::Find(config.name()) != nullptr;
  for (const zoo::Model& model : zoo::Models()) {
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
  if (!(config.label_smoothing() >= 0 && config.label_smoothing() <= 1)) {
    return absl::InvalidArgumentError("model.label_smoothing: must be in [0, 1]");
  }
  if (config.has_width_multiplier() &&
      !(config.width_multiplier() > 0 && config.width_multiplier() <= zoo::kMostWidthMultiplier)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model.width_multiplier: must be above 0 and at most ", zoo::kMostWidthMultiplier));
  }
  return absl::OkStatus();
}

// Returns the field of the layer whose units are the outputs: "model.layer[4] (dense)"; "model" if
// there is none.
std::string OutputLayer(const v1::ModelConfig& config) {
  for (int i = config.layer_size() - 1; i >= 0; --i) {
    if (config.layer(i).has_dense()) return absl::StrCat("model.layer[", i, "] (dense)");
  }
  return "model";
}

std::string Counted(int64_t count, absl::string_view what, absl::string_view plural) {
  return absl::StrCat(count, " ", count == 1 ? what : plural);
}

// Checks that the model has an output for each class.
absl::Status CheckOutputs(const v1::ModelConfig& config, const Shape& predictions,
                          int64_t classes) {
  if (predictions.rank() != 2) {
    return absl::InvalidArgumentError(absl::StrCat(
        "model: its outputs are ", predictions.ToString(), ", but classes need one row of ",
        classes, " outputs for each example; end with layer { flatten {} } layer { dense { units: ",
        classes, " } }"));
  }
  const int64_t outputs = predictions.dim(1);
  if (outputs >= classes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(OutputLayer(config), ": has ", Counted(outputs, "output", "outputs"),
                   ", but there are ", Counted(classes, "class", "classes"), "; give it ", classes,
                   " units, or say with data.classes how many classes there are"));
}

// Checks that the loss can compare these predictions with labels that are class numbers, one per
// example.
absl::Status CheckLoss(LossKind loss, const v1::ModelConfig& config, const Shape& predictions,
                       int64_t classes) {
  if (loss == LossKind::kSparseSoftmaxCrossEntropy) {
    return CheckOutputs(config, predictions, classes);
  }
  const int64_t outputs = predictions.rank() == 0 ? 1 : predictions.dim(predictions.rank() - 1);
  if (predictions.rank() <= 1 || outputs == 1) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "model.loss: ", LossName(loss), " compares numbers, but the model has ", outputs,
      " outputs and a label is one class number; use sparse_softmax_cross_entropy, or give the "
      "last layer 1 unit"));
}

// Builds the part before the loss once to check that it fits, and returns the shape of the
// predictions.
absl::StatusOr<Shape> CheckPredictions(const v1::ModelConfig& config, const ModelInputs& inputs,
                                       int64_t classes, bool is_training) {
  Graph graph;
  GraphBuilder builder(&graph);
  const std::vector<Output> batch = InputQueue(inputs.fields).Dequeue(builder);
  LayerStack layers(builder, config, is_training,
                    config.name().empty()
                        ? BuildFeatureVectors(builder, inputs.features, inputs.fields, batch)
                        : NamedOutputs());
  const Output predictions =
      config.name().empty()
          ? layers.Build(inputs.Of(batch, inputs.input), inputs.Named(batch))
          : BuildPredictions(builder, config, inputs, batch, classes, is_training);
  if (builder.status().ok()) return predictions.shape();
  return absl::InvalidArgumentError(absl::StrCat(layers.where(), ": ", builder.status().message()));
}

absl::Status CheckMetricsFit(const std::vector<std::string>& names,
                             const std::vector<WantedMetric>& metrics, LossKind loss,
                             const v1::ModelConfig& config, const ModelInputs& inputs,
                             int64_t classes) {
  if (metrics.empty()) return absl::OkStatus();
  ASSIGN_OR_RETURN(const Shape predictions,
                   CheckPredictions(config, inputs, classes, /*is_training=*/true));
  for (size_t m = 0; m < metrics.size(); ++m) {
    RETURN_IF_ERROR(CheckMetricFits(names[m], metrics[m], loss, predictions));
  }
  return absl::OkStatus();
}

// Builds the model once to check that it fits.
absl::Status CheckFits(const ModelFunction& model, LossKind loss, const v1::ModelConfig& config,
                       const ModelInputs& inputs, int64_t classes) {
  ASSIGN_OR_RETURN(const Shape predictions,
                   CheckPredictions(config, inputs, classes, /*is_training=*/true));
  const TensorSpec& target = inputs.fields[static_cast<size_t>(inputs.target)].example;
  if (!IsFloating(target.dtype) && target.shape.rank() == 0) {
    RETURN_IF_ERROR(CheckLoss(loss, config, predictions, classes));
  }
  Graph graph;
  GraphBuilder builder(&graph);
  model(builder, InputQueue(inputs.fields).Dequeue(builder), true);
  if (builder.status().ok()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("model: ", builder.status().message()));
}

absl::Status CheckTarget(const std::vector<FieldSpec>& fields) {
  const size_t target = FirstTarget(fields);
  if (target >= fields.size()) {
    return absl::InvalidArgumentError("model: the data set has no labels or targets");
  }
  if (!fields[target].is_ragged()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model: the target ", fields[target].name,
                   " is a ragged field, but a model of the run file predicts numbers or one "
                   "class; make it a dense field, or write the model in C++"));
}

}  // namespace

absl::StatusOr<ModelFunction> MakeModel(const v1::ModelConfig& config,
                                        const std::vector<FieldSpec>& fields, int64_t classes,
                                        const std::vector<std::string>& metrics,
                                        const TableConfigs* tables) {
  RETURN_IF_ERROR(CheckConfig(config));
  ASSIGN_OR_RETURN(std::vector<Feature> features,
                   ResolveFeatures(config, tables == nullptr ? TableConfigs() : *tables, fields));
  const ModelInputs inputs = MakeModelInputs(config, fields, std::move(features));
  RETURN_IF_ERROR(CheckTarget(fields));
  RETURN_IF_ERROR(CheckInputs(config, fields));
  ASSIGN_OR_RETURN(LossKind loss, ParseLoss(config));
  const TensorSpec& target = fields[static_cast<size_t>(inputs.target)].example;
  if (loss == LossKind::kSoftmaxCrossEntropy && !IsFloating(target.dtype)) {
    loss = LossKind::kSparseSoftmaxCrossEntropy;
  }
  std::vector<WantedMetric> wanted;
  for (const std::string& name : metrics) {
    ASSIGN_OR_RETURN(wanted.emplace_back(), ParseMetric(name));
  }
  ModelFunction model = [config, classes, loss, wanted, inputs](GraphBuilder& builder,
                                                                absl::Span<const Output> batch,
                                                                bool is_training) {
    ModelOutputs outputs;
    outputs.predictions = BuildPredictions(builder, config, inputs, batch, classes, is_training);
    const Output labels =
        LabelsFor(builder, loss, outputs.predictions, inputs.Of(batch, inputs.target));
    const bool is_softmax =
        loss == LossKind::kSparseSoftmaxCrossEntropy || loss == LossKind::kSoftmaxCrossEntropy;
    outputs.loss = is_softmax && config.label_smoothing() > 0
                       ? AddSoftmaxCrossEntropyLoss(builder, outputs.predictions, labels,
                                                    config.label_smoothing())
                       : AddLoss(builder, loss, outputs.predictions, labels);
    if (loss == LossKind::kSparseSoftmaxCrossEntropy) {
      outputs.correct_count = CorrectCount(builder, outputs.predictions, labels);
    }
    for (const WantedMetric& metric : wanted) {
      outputs.metrics.push_back(MakeMetric(builder, metric, loss, outputs.predictions, labels));
    }
    return outputs;
  };
  RETURN_IF_ERROR(CheckMetricsFit(metrics, wanted, loss, config, inputs, classes));
  RETURN_IF_ERROR(CheckFits(model, loss, config, inputs, classes));
  return model;
}

bool Classifies(const v1::ModelConfig& config) {
  const absl::StatusOr<LossKind> loss = ParseLoss(config);
  return loss.ok() &&
         (*loss == LossKind::kSparseSoftmaxCrossEntropy || *loss == LossKind::kSoftmaxCrossEntropy);
}

DataRules DataRulesOf(const v1::ModelConfig& config) {
  DataRules rules;
  const absl::StatusOr<LossKind> loss = ParseLoss(config);
  if (loss.ok() && (*loss == LossKind::kSigmoidCrossEntropy || *loss == LossKind::kLog ||
                    *loss == LossKind::kHinge)) {
    rules.binary_loss = std::string(LossName(*loss));
  }
  std::vector<std::string> columns;
  for (const v1::FeatureConfig& feature : config.feature()) {
    if (feature.pooling() == v1::FeatureConfig::POOLING_MEAN) columns.push_back(feature.column());
  }
  rules.takes_mean = [columns](absl::string_view field) {
    return std::any_of(columns.begin(), columns.end(),
                       [field](const std::string& column) { return StandsFor(column, field); });
  };
  return rules;
}

std::string NoticeOfExtraOutputs(const v1::ModelConfig& config,
                                 const std::vector<FieldSpec>& fields, int64_t classes,
                                 bool has_class_names) {
  if (config.feature_size() > 0) return "";
  const size_t target = FirstTarget(fields);
  const bool are_classes = target < fields.size() && !IsFloating(fields[target].example.dtype) &&
                           fields[target].example.shape.rank() == 0;
  if (!are_classes || !Classifies(config) || config.layer().empty()) return "";
  const absl::StatusOr<Shape> predictions =
      CheckPredictions(config, MakeModelInputs(config, fields, {}), classes, /*is_training=*/true);
  if (!predictions.ok() || predictions->rank() != 2 || predictions->dim(1) <= classes) return "";
  return absl::StrCat(OutputLayer(config), ": has ", predictions->dim(1),
                      " outputs, but there are ", Counted(classes, "class", "classes"), ", so ",
                      has_class_names
                          ? "`shoal predict` will show numbers instead of the classes' names"
                          : "the outputs after the first ones belong to no class",
                      "; give it ", classes, " units");
}

absl::StatusOr<PredictionFunction> MakePredictions(const v1::ModelConfig& config,
                                                   const std::vector<FieldSpec>& fields,
                                                   int64_t classes, const TableConfigs* tables) {
  RETURN_IF_ERROR(CheckConfig(config));
  RETURN_IF_ERROR(CheckInputs(config, fields));
  ASSIGN_OR_RETURN(std::vector<Feature> features,
                   ResolveFeatures(config, tables == nullptr ? TableConfigs() : *tables, fields));
  const ModelInputs inputs = MakeModelInputs(config, fields, std::move(features));
  RETURN_IF_ERROR(CheckPredictions(config, inputs, classes, /*is_training=*/false).status());
  return PredictionFunction([config, classes, inputs](GraphBuilder& builder,
                                                      absl::Span<const Output> batch,
                                                      bool is_training) {
    return BuildPredictions(builder, config, inputs, batch, classes, is_training);
  });
}

}  // namespace shoal
