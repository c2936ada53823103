// Computes the initial values of variables. The value of an element depends only on (seed, variable
// name, element index), so any process can compute any range of a variable and gets the same bytes.
#ifndef SHOAL_ML_TENSOR_INITIALIZER_H_
#define SHOAL_ML_TENSOR_INITIALIZER_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

// The numbers are those of Initializer.Kind in proto/v1/variable.proto.
enum class InitializerKind {
  kZeros = 1,
  kConstant = 2,         // a: the value
  kUniform = 3,          // [a, b)
  kNormal = 4,           // mean a, standard deviation b
  kTruncatedNormal = 5,  // like kNormal, but values beyond two standard deviations are drawn again
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

// The fans of a variable's weights, from FanOf. The initializers below use them: Glorot and Bengio
// 2010 (uniform with the limit sqrt(6 / (in + out)), or truncated normal with the standard
// deviation sqrt(2 / (in + out))), and He et al. 2015 (uniform with the limit sqrt(6 / in), or
// truncated normal with the standard deviation sqrt(2 / in)). As in Keras, these are the standard
// deviations after truncation; `b` of the spec is the one before it, larger by a factor 1 /
// 0.8796....
struct Fan {
  double in = 1;
  double out = 1;
};
// Returns the fans of dense weights [in, out] or convolution weights [out, in / group, height,
// width].
Fan FanOf(absl::Span<const int64_t> shape);
InitializerSpec GlorotUniformInitializer(Fan fan);
InitializerSpec GlorotNormalInitializer(Fan fan);
InitializerSpec HeNormalInitializer(Fan fan);
InitializerSpec HeUniformInitializer(Fan fan);

// Returns InvalidArgument, with the name of the field, if bounds are not finite or out of order.
absl::Status ValidateInitializer(const InitializerSpec& spec);

// Returns the hash of a variable's name that InitializeRange needs (Fingerprint64).
uint64_t VariableNameHash(absl::string_view name);

// Writes elements [begin, end) of the variable to out[0 .. end - begin).
void InitializeRange(const InitializerSpec& spec, uint64_t seed, uint64_t name_hash, uint64_t begin,
                     uint64_t end, float* out);

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_INITIALIZER_H_
