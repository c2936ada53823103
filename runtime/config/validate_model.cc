#include <algorithm>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/status_macros.h"
#include "ml/nn/feature_names.h"
#include "ml/nn/zoo_layers.h"
#include "proto/v1/model_config.pb.h"
#include "runtime/config/nearest_name.h"
#include "runtime/config/rule.h"
#include "runtime/config/run_config.h"
#include "runtime/config/validate.h"

namespace shoal {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr uint32_t kMaxUnits = 1u << 24;

absl::Status CheckKnown(absl::string_view field, absl::string_view name,
                        const std::vector<std::string>& known) {
  if (std::find(known.begin(), known.end(), name) != known.end()) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("\"", name, "\" is unknown; it is one of ",
                                          absl::StrJoin(known, ", "), DidYouMean(name, known)));
}

absl::Status CheckSize(absl::string_view field, uint32_t value) {
  if (value >= 1 && value <= kMaxUnits) return absl::OkStatus();
  return InvalidField(field, absl::StrCat("must be 1 to ", kMaxUnits, ", is ", value));
}

using Sizes = google::protobuf::RepeatedField<uint32_t>;

// Checks height and width, or one number for both.
absl::Status CheckWindow(absl::string_view field, const Sizes& sizes) {
  if (sizes.empty()) return CheckSize(field, 0);
  for (uint32_t size : sizes) RETURN_IF_ERROR(CheckSize(field, size));
  return absl::OkStatus();
}

// Checks the shape of an example; at most one dimension may be -1.
absl::Status ValidateReshape(const std::string& field, const v1::ReshapeLayer& layer) {
  int num_open = 0;
  for (int64_t dim : layer.shape()) {
    num_open += dim == -1 ? 1 : 0;
    if (dim >= 1 || dim == -1) continue;
    return InvalidField(field,
                        absl::StrCat("a size must be above 0, or -1 for what is left, is ", dim));
  }
  if (layer.shape().empty()) return InvalidField(field, "is empty; give the shape of one example");
  if (num_open > 1)
    return InvalidField(field, "leaves more than one size open (-1); write -1 at most once");
  return absl::OkStatus();
}

absl::Status ValidateInteraction(const std::string& field, const v1::InteractionLayer& layer) {
  if (layer.kind_case() == v1::InteractionLayer::KIND_NOT_SET) {
    return InvalidField(
        field, "has no kind; write dot {}, factorization_machine {} or cross { layers: 3 }");
  }
  constexpr uint32_t kMostLayers = 64;
  if (layer.cross().layers() <= kMostLayers) return absl::OkStatus();
  return InvalidField(field + ".cross.layers", absl::StrCat("must be at most ", kMostLayers,
                                                            ", is ", layer.cross().layers()));
}

absl::Status ValidateLayer(const std::string& field, const v1::LayerConfig& layer) {
  switch (layer.layer_case()) {
    case v1::LayerConfig::kDense:
      return CheckSize(field + ".dense.units", layer.dense().units());
    case v1::LayerConfig::kConvolution:
      if (!layer.convolution().depthwise()) {
        RETURN_IF_ERROR(CheckSize(field + ".convolution.channels", layer.convolution().channels()));
      }
      return CheckWindow(field + ".convolution.kernel", layer.convolution().kernel());
    case v1::LayerConfig::kTransposedConvolution:
      RETURN_IF_ERROR(CheckSize(field + ".transposed_convolution.channels",
                                layer.transposed_convolution().channels()));
      return CheckWindow(field + ".transposed_convolution.kernel",
                         layer.transposed_convolution().kernel());
    case v1::LayerConfig::kPool:
      if (layer.pool().global()) return absl::OkStatus();
      return CheckWindow(field + ".pool.kernel", layer.pool().kernel());
    case v1::LayerConfig::kBatchNorm:
      if (layer.batch_norm().has_epsilon()) {
        RETURN_IF_ERROR(CheckPositive(field + ".batch_norm.epsilon", layer.batch_norm().epsilon()));
      }
      return CheckRange(field + ".batch_norm.decay", layer.batch_norm().decay(), 0, 1);
    case v1::LayerConfig::kDropout:
      if (layer.dropout().rate() >= 0 && layer.dropout().rate() < 1) return absl::OkStatus();
      return InvalidField(field + ".dropout.rate",
                          absl::StrCat("must be in [0, 1), is ", layer.dropout().rate()));
    case v1::LayerConfig::kEmbedding:
      RETURN_IF_ERROR(CheckSize(field + ".embedding.rows", layer.embedding().rows()));
      return CheckSize(field + ".embedding.units", layer.embedding().units());
    case v1::LayerConfig::kReshape:
      return ValidateReshape(field + ".reshape.shape", layer.reshape());
    case v1::LayerConfig::kConcat:
      if (!layer.concat().has_axis() || layer.concat().axis() != 0) return absl::OkStatus();
      return InvalidField(field + ".concat.axis", "0 is the batch; name another axis");
    case v1::LayerConfig::kInteraction:
      return ValidateInteraction(field + ".interaction", layer.interaction());
    case v1::LayerConfig::kFlatten:
    case v1::LayerConfig::kActivation:
    case v1::LayerConfig::kAdd:
    case v1::LayerConfig::kLayerNorm:
    case v1::LayerConfig::kLocalResponseNorm:
      return absl::OkStatus();
    case v1::LayerConfig::LAYER_NOT_SET:
      break;
  }
  std::vector<std::string> kinds;
  const auto* known = v1::LayerConfig::descriptor()->FindOneofByName("layer");
  for (int i = 0; i < known->field_count(); ++i) {
    const absl::string_view either = i + 1 == known->field_count() ? "or " : "";
    kinds.push_back(absl::StrCat(either, known->field(i)->name(), " {...}"));
  }
  return InvalidField(field, absl::StrCat("has no kind; write ", absl::StrJoin(kinds, ", ")));
}

// Returns whether a layer's input names a feature, or may stand for some or be one of some.
bool IsFeature(const v1::ModelConfig& model, absl::string_view input) {
  for (const v1::FeatureConfig& feature : model.feature()) {
    const std::string& name = feature.name().empty() ? feature.column() : feature.name();
    const absl::string_view fixed = absl::string_view(name).substr(0, name.find('*'));
    if (StandsFor(input, name) || (IsPattern(feature.column()) && absl::StartsWith(input, fixed)) ||
        (IsPattern(input) && absl::StartsWith(fixed, absl::StripSuffix(input, "*")))) {
      return true;
    }
  }
  return false;
}

// Checks the names of layers, which are scopes of variables, and their inputs, which must name
// earlier layers.
absl::Status ValidateLayers(const v1::ModelConfig& model) {
  std::set<std::string> names(model.input().begin(), model.input().end());
  for (int i = 0; i < model.layer_size(); ++i) {
    const v1::LayerConfig& layer = model.layer(i);
    const std::string field = absl::StrCat("model.layer[", i, "]");
    RETURN_IF_ERROR(ValidateLayer(field, layer));
    for (const std::string& input : layer.input()) {
      if (names.count(input) > 0 || input == "input" || IsFeature(model, input)) continue;
      return InvalidField(field + ".input",
                          absl::StrCat("\"", input, "\" is not a layer above this one",
                                       model.feature().empty() ? "" : " or a feature",
                                       "; name one of those or \"input\", or list the data's field "
                                       "in model.input"));
    }
    if (!layer.name().empty() && !names.insert(layer.name()).second) {
      return InvalidField(
          field + ".name",
          absl::StrCat("\"", layer.name(), "\" is used twice; give each layer a name of its own"));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status ValidateModel(const v1::ModelConfig& model) {
  if (model.name().empty() && model.layer().empty()) {
    return InvalidField("model",
                        absl::StrCat("is not given; name a run file with --run=FILE, or a model "
                                     "with --model=NAME, one of ",
                                     absl::StrJoin(KnownModels(), ", "),
                                     ", or a program of yours with --program=FILE"));
  }
  if (!model.name().empty() && !model.layer().empty()) {
    return InvalidField("model.name", absl::StrCat("is \"", model.name(),
                                                   "\", but layers are listed too; "
                                                   "drop one of them"));
  }
  if (model.layer().empty()) {
    RETURN_IF_ERROR(CheckKnown("model.name", model.name(), KnownModels()));
  } else {
    RETURN_IF_ERROR(ValidateLayers(model));
  }
  RETURN_IF_ERROR(CheckKnown("model.loss", model.loss(), KnownLosses()));
  RETURN_IF_ERROR(CheckRange("model.label_smoothing", model.label_smoothing(), 0, 1));
  if (model.has_width_multiplier()) {
    if (!(model.width_multiplier() > 0 && model.width_multiplier() <= zoo::kMostWidthMultiplier)) {
      return InvalidField(
          "model.width_multiplier",
          absl::StrCat("must be a number above 0 and at most ", zoo::kMostWidthMultiplier, ", is ",
                       model.width_multiplier()));
    }
    const zoo::Model* named = zoo::Find(model.name());
    if (named == nullptr || !named->has_width_multiplier) {
      return InvalidField("model.width_multiplier", "is for the mobilenet_v2 models only; drop it");
    }
  }
  return CheckRange("model.weight_decay", model.weight_decay(), 0, kInfinity);
}

}  // namespace shoal
