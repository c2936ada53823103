// Builds a model from a ModelConfig.
#ifndef SHOAL_ML_NN_MODEL_BUILDER_H_
#define SHOAL_ML_NN_MODEL_BUILDER_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"

#include "ml/data/data_rules.h"
#include "ml/nn/features.h"
#include "ml/nn/model.h"

namespace shoal {

namespace v1 {
class ModelConfig;
}

// Makes the model that the config names or describes. It learns the first target of `fields`
// (FirstTarget). Its first layer takes the first field of model.input. If model.input is empty, it
// takes the first dense input field; in a model with features, which are columns of ids that it
// reads through tables, the first dense input field of floating-point numbers. The function builds
// the model once to check that it fits; InvalidArgument names the field of the config or the layer,
// and the problem. `metrics` are names as ParseMetric knows them.
absl::StatusOr<ModelFunction> MakeModel(const v1::ModelConfig& config,
                                        const std::vector<FieldSpec>& fields, int64_t classes,
                                        const std::vector<std::string>& metrics = {},
                                        const TableConfigs* tables = nullptr);

// Returns a notice for the user if a model that is given by layers has more outputs than there are
// classes: the layer, both numbers and the remedy. Returns "" otherwise.
std::string NoticeOfExtraOutputs(const v1::ModelConfig& config,
                                 const std::vector<FieldSpec>& fields, int64_t classes,
                                 bool has_class_names);

// Returns whether the largest output of the model is the class that it predicts: its loss is a
// softmax cross entropy.
bool Classifies(const v1::ModelConfig& config);

// Returns what the model wants of the values of its data: labels that are 0 and 1 for the losses
// sigmoid_cross_entropy, log_loss and hinge, and weights that are not negative for features with
// the pooling mean.
DataRules DataRulesOf(const v1::ModelConfig& config);

// Makes the part of the model that computes the predictions from its inputs, without labels and
// loss. `fields` are the input fields, and the function gets their placeholders as
// InputQueue::Dequeue returns them. `tables` are those of the run. Errors are those of MakeModel.
using PredictionFunction =
    std::function<Output(GraphBuilder& builder, absl::Span<const Output> batch, bool is_training)>;
absl::StatusOr<PredictionFunction> MakePredictions(const v1::ModelConfig& config,
                                                   const std::vector<FieldSpec>& fields,
                                                   int64_t classes,
                                                   const TableConfigs* tables = nullptr);

}  // namespace shoal

#endif  // SHOAL_ML_NN_MODEL_BUILDER_H_
