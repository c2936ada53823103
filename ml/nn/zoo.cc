#include "ml/nn/zoo.h"

#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "google/protobuf/text_format.h"

#include "base/log.h"
#include "ml/nn/layer_stack.h"
#include "proto/v1/model_config.pb.h"

namespace shoal::zoo {

namespace {

// Returns what is wrong with the features of a model that takes some; empty: nothing.
std::string WhyFeaturesDoNotFit(const Model& model, const NamedOutputs& features) {
  const std::string wanted = absl::StrReplaceAll(model.features, {{"\n", " "}});
  if (features.empty()) return absl::StrCat(model.name, " needs features; add ", wanted);
  if (!absl::StrContains(wanted, "wide_*")) return "";
  bool has_wide = false, has_deep = false;
  for (const auto& [name, vector] : features) {
    has_deep |= absl::StartsWith(name, "deep_");
    if (!absl::StartsWith(name, "wide_")) continue;
    has_wide = true;
    const int64_t dim = vector.shape().dim(1);
    if (dim == 1) continue;
    return absl::StrCat(model.name, " adds the features wide_*, which are one number each, but ",
                        name, " has ", dim,
                        "; give their tables dim 1, as table { name: \"wide_*\" dim: 1 }");
  }
  if (has_wide && has_deep) return "";
  return absl::StrCat(model.name, " needs features named wide_* and others named deep_*; add ",
                      wanted);
}

// Builds all layers but the last `num_left_out`.
Output BuildLayers(GraphBuilder& builder, absl::string_view name, Output input,
                   const ModelOptions& options, int num_left_out, NamedOutputs features = {}) {
  const Model* model = Find(name);
  if (model == nullptr) {
    builder.SetError(absl::InvalidArgumentError(absl::StrCat("no model has the name ", name)));
    return {};
  }
  const bool takes_features = model->features != nullptr;
  const std::string wrong = takes_features ? WhyFeaturesDoNotFit(*model, features)
                            : features.empty()
                                ? ""
                                : absl::StrCat(name, " takes no features; drop model.feature");
  if (!wrong.empty()) {
    builder.SetError(absl::InvalidArgumentError(wrong));
    return {};
  }
  if (!input.valid() && !takes_features) return {};
  const Shape shape = input.valid() ? input.shape() : Shape();
  const bool is_image = shape.rank() == 4;
  v1::ModelConfig config;
  ModelOptions adapted = options;
  adapted.has_input = input.valid();
  if (takes_features) adapted.feature_dim = features.back().second.shape().dim(1);
  const std::string layers =
      model->layers(adapted, is_image ? shape.dim(2) : 0, is_image ? shape.dim(3) : 0);
  CHECK(google::protobuf::TextFormat::ParseFromString(layers, &config)) << layers;
  config.set_weight_decay(options.weight_decay);
  for (int i = 0; i < num_left_out; ++i) config.mutable_layer()->RemoveLast();
  return LayerStack(builder, config, options.is_training, std::move(features)).Build(input);
}

}  // namespace

Output Build(GraphBuilder& builder, absl::string_view name, Output input,
             const ModelOptions& options, NamedOutputs features) {
  return BuildLayers(builder, name, input, options, /*num_left_out=*/0, std::move(features));
}

Output BuildFeatures(GraphBuilder& builder, absl::string_view name, Output input,
                     const ModelOptions& options) {
  return BuildLayers(builder, name, input, options, /*num_left_out=*/1);
}

}  // namespace shoal::zoo
