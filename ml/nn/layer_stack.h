// Builds the layers of a ModelConfig as nodes of a graph. Private to ml/nn.
#ifndef SHOAL_ML_NN_LAYER_STACK_H_
#define SHOAL_ML_NN_LAYER_STACK_H_

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/string_view.h"

#include "ml/graph/graph_builder.h"
#include "ml/nn/features.h"

namespace shoal {

namespace v1 {
class ActivationLayer;
class DropoutLayer;
class LayerConfig;
class ModelConfig;
}  // namespace v1

// Adds the layers of a config, one after the other. Errors go to the builder's status; where()
// names the layer.
class LayerStack {
 public:
  // The builder and the config must outlive it. `features` are further inputs, which layers can
  // name.
  LayerStack(GraphBuilder& builder, const v1::ModelConfig& config, bool is_training,
             NamedOutputs features = {})
      : builder_(builder),
        config_(config),
        is_training_(is_training),
        features_(std::move(features)) {}

  // Adds the layers and returns the output of the last one; not valid after an error. The first
  // layer takes `input`, which is not valid if the data has none. Layers can name the outputs in
  // `named` as their inputs, besides "input".
  Output Build(Output input, std::map<std::string, Output> named = {});

  // Returns the config field of the layer that was built last, such as "model.layer[2] (pool)";
  // "model" before the first layer.
  const std::string& where() const { return where_; }

 private:
  std::string GetName(const v1::LayerConfig& layer);
  // Appends the outputs that an input of a layer stands for.
  void AppendInput(const std::string& name, const std::string& input, std::vector<Output>* outputs);
  std::vector<Output> GetInputs(const v1::LayerConfig& layer, const std::string& name,
                                Output previous);
  Output Merge(const v1::LayerConfig& layer, const std::string& name, std::vector<Output> inputs);
  // Returns what a run file calls an input of a layer.
  std::string NameOf(Output input) const;
  // Sets an error and returns false if not all inputs have the same numbers of an example.
  bool CheckWidths(const std::string& name, const std::vector<Output>& inputs);
  Output BuildInteraction(const v1::LayerConfig& layer, const std::string& name,
                          std::vector<Output> inputs);
  Output BuildLayer(const v1::LayerConfig& layer, const std::string& name, Output input);
  Output BuildActivation(const v1::ActivationLayer& layer, const std::string& name, Output input);
  Output BuildDropout(const v1::DropoutLayer& layer, const std::string& name, Output input);
  Output BuildEmbedding(const v1::LayerConfig& layer, const std::string& name, Output input);
  Output BuildDense(const v1::LayerConfig& layer, const std::string& name, Output input);
  bool CheckParameters(const v1::LayerConfig& layer, const std::string& name);
  double GetWeightDecay(const v1::LayerConfig& layer) const;
  void Fail(const std::string& name, absl::string_view message) {
    builder_.SetError(absl::InvalidArgumentError(absl::StrCat("'", name, "': ", message)));
  }

  GraphBuilder& builder_;
  const v1::ModelConfig& config_;
  const bool is_training_;
  const NamedOutputs features_;
  std::map<std::string, Output> outputs_;
  std::map<std::string, int> num_of_kind_;
  std::string where_ = "model";
};

}  // namespace shoal

#endif  // SHOAL_ML_NN_LAYER_STACK_H_
