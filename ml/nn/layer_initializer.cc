#include "ml/nn/layer_initializer.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "proto/v1/model_config.pb.h"

namespace shoal {
namespace {

InitializerSpec ToSpec(const v1::LayerInitializer& config, const Fan& fan) {
  switch (config.distribution()) {
    case v1::LayerInitializer::DISTRIBUTION_UNIFORM:
      return UniformInitializer(config.a(), config.b());
    case v1::LayerInitializer::DISTRIBUTION_NORMAL:
      return NormalInitializer(config.a(), config.b());
    case v1::LayerInitializer::DISTRIBUTION_TRUNCATED_NORMAL:
      return TruncatedNormalInitializer(config.a(), config.b());
    case v1::LayerInitializer::DISTRIBUTION_GLOROT_UNIFORM:
      return GlorotUniformInitializer(fan);
    case v1::LayerInitializer::DISTRIBUTION_GLOROT_NORMAL:
      return GlorotNormalInitializer(fan);
    case v1::LayerInitializer::DISTRIBUTION_HE_UNIFORM:
      return HeUniformInitializer(fan);
    case v1::LayerInitializer::DISTRIBUTION_HE_NORMAL:
      return HeNormalInitializer(fan);
    default:
      return config.a() == 0 ? ZerosInitializer() : ConstantInitializer(config.a());
  }
}

}  // namespace

absl::StatusOr<InitializerSpec> MakeLayerInitializer(const v1::LayerInitializer& config,
                                                     const Shape& shape) {
  if (config.distribution() == v1::LayerInitializer::DISTRIBUTION_UNSPECIFIED) {
    return absl::InvalidArgumentError("distribution: is not given; write one such as NORMAL");
  }
  const bool is_by_fan = config.distribution() >= v1::LayerInitializer::DISTRIBUTION_GLOROT_UNIFORM;
  if (is_by_fan && (config.a() != 0 || config.b() != 0)) {
    return absl::InvalidArgumentError("a, b: Glorot's and He's take no numbers");
  }
  const InitializerSpec spec = ToSpec(config, FanOf(shape.dims()));
  RETURN_IF_ERROR(ValidateInitializer(spec));
  return spec;
}

bool ReadInitializers(GraphBuilder& builder, const std::string& name, const v1::LayerConfig& layer,
                      const Shape& weights, std::optional<InitializerSpec>* weights_initializer,
                      InitializerSpec* biases_initializer) {
  const auto read = [&](const char* field, const v1::LayerInitializer& config, auto* initializer) {
    const absl::StatusOr<InitializerSpec> spec = MakeLayerInitializer(config, weights);
    if (spec.ok()) {
      *initializer = *spec;
    } else {
      builder.SetError(absl::InvalidArgumentError(
          absl::StrCat("'", name, "': ", field, ": ", spec.status().message())));
    }
    return spec.ok();
  };
  return (!layer.has_weights_initializer() ||
          read("weights_initializer", layer.weights_initializer(), weights_initializer)) &&
         (!layer.has_biases_initializer() ||
          read("biases_initializer", layer.biases_initializer(), biases_initializer));
}

}  // namespace shoal
