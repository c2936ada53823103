#include "ml/tensor/initializer.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"

#include "base/hash.h"
#include "base/random.h"

namespace shoal {
namespace {

// The standard deviation of a standard normal distribution that is truncated at two standard
// deviations.
constexpr double kTruncatedDeviation = 0.87962566103423978;

InitializerSpec Truncated(double variance) {
  return TruncatedNormalInitializer(0, std::sqrt(variance) / kTruncatedDeviation);
}

InitializerSpec SymmetricUniform(double variance) {
  const double limit = std::sqrt(3 * variance);
  return UniformInitializer(-limit, limit);
}

}  // namespace

InitializerSpec ZerosInitializer() { return {InitializerKind::kZeros, 0, 0}; }

InitializerSpec ConstantInitializer(double value) { return {InitializerKind::kConstant, value, 0}; }

InitializerSpec UniformInitializer(double low, double high) {
  return {InitializerKind::kUniform, low, high};
}

InitializerSpec NormalInitializer(double mean, double standard_deviation) {
  return {InitializerKind::kNormal, mean, standard_deviation};
}

InitializerSpec TruncatedNormalInitializer(double mean, double standard_deviation) {
  return {InitializerKind::kTruncatedNormal, mean, standard_deviation};
}

Fan FanOf(absl::Span<const int64_t> shape) {
  if (shape.empty()) return {};
  if (shape.size() == 1) return {static_cast<double>(shape[0]), static_cast<double>(shape[0])};
  if (shape.size() == 2) return {static_cast<double>(shape[0]), static_cast<double>(shape[1])};
  double window = 1;
  for (size_t i = 2; i < shape.size(); ++i) window *= static_cast<double>(shape[i]);
  return {window * static_cast<double>(shape[1]), window * static_cast<double>(shape[0])};
}

InitializerSpec GlorotUniformInitializer(Fan fan) {
  return SymmetricUniform(2 / (fan.in + fan.out));
}

InitializerSpec GlorotNormalInitializer(Fan fan) { return Truncated(2 / (fan.in + fan.out)); }

InitializerSpec HeNormalInitializer(Fan fan) { return Truncated(2 / fan.in); }

InitializerSpec HeUniformInitializer(Fan fan) { return SymmetricUniform(2 / fan.in); }

absl::Status ValidateInitializer(const InitializerSpec& spec) {
  if (!std::isfinite(spec.a) || !std::isfinite(spec.b)) {
    return absl::InvalidArgumentError("initializer: a and b must be finite numbers");
  }
  switch (spec.kind) {
    case InitializerKind::kZeros:
    case InitializerKind::kConstant:
      return absl::OkStatus();
    case InitializerKind::kUniform:
      if (spec.a <= spec.b) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("initializer: uniform needs a <= b, has a=", spec.a, " b=", spec.b));
    case InitializerKind::kNormal:
    case InitializerKind::kTruncatedNormal:
      if (spec.b >= 0) return absl::OkStatus();
      return absl::InvalidArgumentError(
          absl::StrCat("initializer: the standard deviation b must not be negative, is ", spec.b));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("initializer: unknown kind ", static_cast<int>(spec.kind)));
}

uint64_t VariableNameHash(absl::string_view name) { return Fingerprint64(name); }

void InitializeRange(const InitializerSpec& spec, uint64_t seed, uint64_t name_hash, uint64_t begin,
                     uint64_t end, float* out) {
  const absl::Span<float> range(out, end - begin);
  const uint64_t key = DeriveKey(seed, name_hash);
  float offset = static_cast<float>(spec.a);
  float factor = static_cast<float>(spec.b);
  switch (spec.kind) {
    case InitializerKind::kZeros:
      std::fill(range.begin(), range.end(), 0.0f);
      return;
    case InitializerKind::kConstant:
      std::fill(range.begin(), range.end(), offset);
      return;
    case InitializerKind::kUniform:
      FillUniform(key, begin, range);
      factor = static_cast<float>(spec.b - spec.a);
      break;
    case InitializerKind::kNormal:
      FillNormal(key, begin, range);
      break;
    case InitializerKind::kTruncatedNormal:
      FillTruncatedNormal(key, begin, range);
      break;
  }
  for (float& value : range) value = offset + factor * value;
}

}  // namespace shoal
