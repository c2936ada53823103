// First values of variables: a pure function of (seed, variable name, element index), so that any
// range of a variable can be made alone, by any process, with the same bytes.
#ifndef SHOAL_ML_TENSOR_INITIALIZER_H_
#define SHOAL_ML_TENSOR_INITIALIZER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

// Values are those of proto/v1/variable.proto's Initializer.Kind.
enum class InitializerKind {
  kZeros = 1,
  kConstant = 2,         // a: the value
  kUniform = 3,          // [a, b)
  kNormal = 4,           // mean a, standard deviation b
  kTruncatedNormal = 5,  // like kNormal; values beyond two standard deviations are drawn again
};

struct InitializerSpec {
  InitializerKind kind = InitializerKind::kZeros;
  double a = 0;
  double b = 0;

  friend bool operator==(const InitializerSpec& x, const InitializerSpec& y) {
    return x.kind == y.kind && x.a == y.a && x.b == y.b;
  }
};

InitializerSpec ZerosInitializer();
InitializerSpec ConstantInitializer(double value);
InitializerSpec UniformInitializer(double low, double high);
InitializerSpec NormalInitializer(double mean, double standard_deviation);
InitializerSpec TruncatedNormalInitializer(double mean, double standard_deviation);

// These use the fans of the weights, from FanOf: Glorot and Bengio 2010 (sqrt(6 / (in + out))
// uniform, sqrt(2 / (in + out)) truncated normal), He et al. 2015 (sqrt(2 / in) truncated normal).
// The standard deviation of a truncated normal is the one before truncation divided by 0.8796...,
// as Keras does, so that it holds after it.
struct Fan {
  double in = 1;
  double out = 1;
};
// Dense weights [in, out]; convolution weights [out, in / group, height, width].
Fan FanOf(absl::Span<const int64_t> shape);
InitializerSpec GlorotUniformInitializer(Fan fan);
InitializerSpec GlorotNormalInitializer(Fan fan);
InitializerSpec HeNormalInitializer(Fan fan);
InitializerSpec HeUniformInitializer(Fan fan);

// InvalidArgument, naming the field, for bounds that are not finite or out of order.
absl::Status ValidateInitializer(const InitializerSpec& spec);

// Identifies a variable in InitializeRange: Fingerprint64 of its name.
uint64_t VariableNameHash(absl::string_view name);

// Writes elements [begin, end) of the variable to out[0 .. end - begin).
void InitializeRange(const InitializerSpec& spec, uint64_t seed, uint64_t name_hash, uint64_t begin,
                     uint64_t end, float* out);

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_INITIALIZER_H_
