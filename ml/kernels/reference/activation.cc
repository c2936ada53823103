// Functions of elements with attributes, and powers.

#include <cmath>
#include <limits>
#include <string>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kPi = 3.14159265358979323846;

// f(attributes, x) for every element.
template <typename T, double (*F)(const Attributes&, double)>
void Map(const Call& call) {
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    call.Out<T>(0)[i] = static_cast<T>(F(call.attributes, call.In<T>(0)[i]));
  }
}

// The slope f(attributes, v) at input 0, times dy.
template <typename T, double (*F)(const Attributes&, double)>
void MapSlope(const Call& call) {
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    call.Out<T>(0)[i] = static_cast<T>(F(call.attributes, call.In<T>(0)[i]) * call.In<T>(1)[i]);
  }
}

double Low(const Attributes& a) { return a.GetDouble("min", -kInfinity); }
double High(const Attributes& a) { return a.GetDouble("max", kInfinity); }
double LeakyAlpha(const Attributes& a) { return a.GetDouble("alpha", 0.01); }
double EluAlpha(const Attributes& a) { return a.GetDouble("alpha", 1); }
bool IsTanhForm(const Attributes& a) { return a.GetString("approximate", "none") == "tanh"; }

// NaN compares false everywhere below, and must stay NaN.
double Clip(const Attributes& a, double x) {
  return x < Low(a) ? Low(a) : x > High(a) ? High(a) : x;
}
double LeakyRelu(const Attributes& a, double x) { return x < 0 ? LeakyAlpha(a) * x : x; }
double Elu(const Attributes& a, double x) { return x < 0 ? EluAlpha(a) * std::expm1(x) : x; }
double Erf(const Attributes&, double x) { return std::erf(x); }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Silu(const Attributes&, double x) { return x * Sigmoid(x); }
double Softplus(const Attributes&, double x) {
  return (x < 0 ? 0 : x) + std::log1p(std::exp(-std::fabs(x)));
}
double TanhOfGelu(double x) { return std::tanh(std::sqrt(2 / kPi) * (x + 0.044715 * x * x * x)); }
double Gelu(const Attributes& a, double x) {
  return 0.5 * x * (1 + (IsTanhForm(a) ? TanhOfGelu(x) : std::erf(x / std::sqrt(2.0))));
}

// These return the slope for an output y.
double ClipSlope(const Attributes& a, double y) { return y > Low(a) && y < High(a) ? 1 : 0; }
double LeakyReluSlope(const Attributes& a, double y) { return y > 0 ? 1 : LeakyAlpha(a); }
double EluSlope(const Attributes& a, double y) { return y > 0 ? 1 : y + EluAlpha(a); }

// These return the slope for an input x.
double SiluSlope(const Attributes&, double x) { return Sigmoid(x) * (1 + x * (1 - Sigmoid(x))); }
double GeluSlope(const Attributes& a, double x) {
  if (IsTanhForm(a)) {
    const double t = TanhOfGelu(x);
    return 0.5 * (1 + t) + 0.5 * x * (1 - t * t) * std::sqrt(2 / kPi) * (1 + 3 * 0.044715 * x * x);
  }
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) + x * std::exp(-0.5 * x * x) / std::sqrt(2 * kPi);
}

template <typename T>
void Pow(const Call& call) {
  const Shape& shape = call.OutShape(0);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const double a = call.In<T>(0)[BroadcastIndex(call.InShape(0), shape, i)];
    const double b = call.In<T>(1)[BroadcastIndex(call.InShape(1), shape, i)];
    call.Out<T>(0)[i] = static_cast<T>(std::pow(a, b));
  }
}

#define SHOAL_MAP(name) \
  { #name, &Map < float, &name>, &Map < double, &name> }
#define SHOAL_SLOPE(name) \
  { #name "Grad", &MapSlope < float, &name##Slope>, &MapSlope < double, &name##Slope> }

constexpr Op kOps[] = {
    SHOAL_MAP(Clip),
    SHOAL_MAP(Elu),
    SHOAL_MAP(Erf),
    SHOAL_MAP(Gelu),
    SHOAL_MAP(LeakyRelu),
    SHOAL_MAP(Silu),
    SHOAL_MAP(Softplus),
    SHOAL_SLOPE(Clip),
    SHOAL_SLOPE(Elu),
    SHOAL_SLOPE(Gelu),
    SHOAL_SLOPE(LeakyRelu),
    SHOAL_SLOPE(Silu),
    {"Pow", &Pow<float>, &Pow<double>},
};

}  // namespace

absl::Span<const Op> ActivationOps() { return kOps; }

}  // namespace shoal::reference
