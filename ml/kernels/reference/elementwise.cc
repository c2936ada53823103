#include <cmath>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

// f(x) for every element.
template <typename T, double (*F)(double)>
void Unary(const Call& call) {
  const T* x = call.In<T>(0);
  T* y = call.Out<T>(0);
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) y[i] = static_cast<T>(F(x[i]));
}

// f(a, b) for every element of the broadcast shape.
template <typename T, double (*F)(double, double)>
void Binary(const Call& call) {
  const T* a = call.In<T>(0);
  const T* b = call.In<T>(1);
  T* c = call.Out<T>(0);
  const Shape& shape = call.OutShape(0);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    c[i] = static_cast<T>(F(a[BroadcastIndex(call.InShape(0), shape, i)],
                            b[BroadcastIndex(call.InShape(1), shape, i)]));
  }
}

// NaN compares false everywhere below, and must stay NaN.
double Relu(double x) { return x < 0 ? 0 : x; }
double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double Tanh(double x) { return std::tanh(x); }
double Exp(double x) { return std::exp(x); }
double Log(double x) { return std::log(x); }
double Sqrt(double x) { return std::sqrt(x); }
double Neg(double x) { return -x; }
double Abs(double x) { return std::fabs(x); }
double Square(double x) { return x * x; }
double Reciprocal(double x) { return 1 / x; }

double Add(double a, double b) { return a + b; }
double Sub(double a, double b) { return a - b; }
double Mul(double a, double b) { return a * b; }
double Div(double a, double b) { return a / b; }
double Maximum(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double Minimum(double a, double b) { return std::isnan(a) || a < b ? a : b; }
double SquaredDifference(double a, double b) { return (a - b) * (a - b); }

// These compute the gradient from the activation's value y and its gradient.
double ReluGrad(double y, double dy) { return y > 0 ? dy : 0; }
double SigmoidGrad(double y, double dy) { return dy * y * (1 - y); }
double TanhGrad(double y, double dy) { return dy * (1 - y * y); }

template <typename T>
void AddN(const Call& call) {
  T* sum = call.Out<T>(0);
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    double total = 0;
    for (size_t k = 0; k < call.inputs.size(); ++k) total += call.In<T>(k)[i];
    sum[i] = static_cast<T>(total);
  }
}

template <typename T>
void Scale(const Call& call) {
  const double factor = call.attributes.GetDouble("factor", 1);
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    call.Out<T>(0)[i] = static_cast<T>(factor * call.In<T>(0)[i]);
  }
}

#define SHOAL_UNARY(name) \
  { #name, &Unary < float, &name>, &Unary < double, &name> }
#define SHOAL_BINARY(name) \
  { #name, &Binary < float, &name>, &Binary < double, &name> }

constexpr Op kOps[] = {
    SHOAL_UNARY(Relu),
    SHOAL_UNARY(Sigmoid),
    SHOAL_UNARY(Tanh),
    SHOAL_UNARY(Exp),
    SHOAL_UNARY(Log),
    SHOAL_UNARY(Sqrt),
    SHOAL_UNARY(Neg),
    SHOAL_UNARY(Abs),
    SHOAL_UNARY(Square),
    SHOAL_UNARY(Reciprocal),
    SHOAL_BINARY(Add),
    SHOAL_BINARY(Sub),
    SHOAL_BINARY(Mul),
    SHOAL_BINARY(Div),
    SHOAL_BINARY(Maximum),
    SHOAL_BINARY(Minimum),
    SHOAL_BINARY(SquaredDifference),
    SHOAL_BINARY(ReluGrad),
    SHOAL_BINARY(SigmoidGrad),
    SHOAL_BINARY(TanhGrad),
    {"AddN", &AddN<float>, &AddN<double>},
    {"Scale", &Scale<float>, &Scale<double>},
};

}  // namespace

absl::Span<const Op> ElementwiseOps() { return kOps; }

}  // namespace shoal::reference
