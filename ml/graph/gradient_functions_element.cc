#include "absl/strings/str_cat.h"

#include "ml/graph/gradient_functions.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/ops.h"

namespace shoal::gradients {

void FromOutput(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op(absl::StrCat(r.node.op, "Grad"), {r.y(0), r.output_gradients[0]},
                          r.node.attributes);
}

void FromInput(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.builder.Op(absl::StrCat(r.node.op, "Grad"), {r.x(0), r.output_gradients[0]},
                          r.node.attributes);
}

void Softplus(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::Mul(r.builder, r.output_gradients[0], r.builder.Op("Sigmoid", {r.x(0)}));
}

// 2 / sqrt(pi) * exp(-x^2)
void Erf(const GradientRequest& r, std::vector<Output>* dx) {
  constexpr double kTwoOverRootPi = 1.12837916709551257390;
  const Output bell = r.builder.Op("Exp", {ops::Neg(r.builder, ops::Square(r.builder, r.x(0)))});
  (*dx)[0] =
      ops::Mul(r.builder, r.output_gradients[0], ops::Scale(r.builder, bell, kTwoOverRootPi));
}

// da = dc * b * a^(b - 1); db = dc * c * log(a), 0 where a is not positive, as TensorFlow has it.
void Pow(const GradientRequest& r, std::vector<Output>* dx) {
  const Output a = r.x(0), b = r.x(1), dc = r.output_gradients[0];
  const Output one = ops::Constant(r.builder, 1, a.dtype());
  const Output zero = ops::Constant(r.builder, 0, a.dtype());
  const Output slope = ops::Mul(r.builder, b, ops::Pow(r.builder, a, ops::Sub(r.builder, b, one)));
  (*dx)[0] = ops::SumTo(r.builder, ops::Mul(r.builder, dc, slope), a);
  const Output log =
      ops::Where(r.builder, ops::Greater(r.builder, a, zero), r.builder.Op("Log", {a}), zero);
  (*dx)[1] = ops::SumTo(r.builder, ops::Mul(r.builder, dc, ops::Mul(r.builder, r.y(0), log)), b);
}

void Where(const GradientRequest& r, std::vector<Output>* dx) {
  const Output dy = r.output_gradients[0];
  const Output zero = ops::Constant(r.builder, 0, dy.dtype());
  (*dx)[1] = ops::SumTo(r.builder, ops::Where(r.builder, r.x(0), dy, zero), r.x(1));
  (*dx)[2] = ops::SumTo(r.builder, ops::Where(r.builder, r.x(0), zero, dy), r.x(2));
}

}  // namespace shoal::gradients
