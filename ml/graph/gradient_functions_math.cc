#include <numeric>
#include <utility>

#include "absl/strings/string_view.h"

#include "ml/graph/gradient_functions.h"
#include "ml/graph/graph_builder.h"
#include "ml/graph/ops.h"

namespace shoal::gradients {
namespace {

// Sets the gradients of a broadcasting op's two inputs, summed down to their shapes.
void SetBroadcast(const GradientRequest& r, Output da, Output db, std::vector<Output>* dx) {
  (*dx)[0] = ops::SumTo(r.builder, da, r.x(0));
  (*dx)[1] = ops::SumTo(r.builder, db, r.x(1));
}

// Returns the gradient where `larger` is larger than `other`, and zero elsewhere.
Output WhereLarger(const GradientRequest& r, Output larger, Output other, Output dy) {
  return r.builder.Op("ReluGrad", {ops::Sub(r.builder, larger, other), dy});
}

Output SwapLastAxes(const GradientRequest& r, Output x) {
  if (!x.valid()) return {};
  std::vector<int64_t> perm(x.shape().rank());
  std::iota(perm.begin(), perm.end(), 0);
  std::swap(perm[perm.size() - 1], perm[perm.size() - 2]);
  return ops::Transpose(r.builder, x, std::move(perm));
}

// Computes db for a batch of a and one matrix b: as if the batch were one tall matrix, or as a sum
// over the batch.
Output SharedGradient(const GradientRequest& r, Output a, Output dc, bool ta, bool tb) {
  if (ta) {
    const Output each = tb ? ops::MatMul(r.builder, dc, a, true, true)
                           : ops::MatMul(r.builder, a, dc, false, false);
    return ops::SumTo(r.builder, each, r.x(1));
  }
  const auto tall = [&](Output x) {
    return ops::Reshape(r.builder, x, {-1, x.shape().dim(x.shape().rank() - 1)});
  };
  return tb ? ops::MatMul(r.builder, tall(dc), tall(a), true, false)
            : ops::MatMul(r.builder, tall(a), tall(dc), true, false);
}

}  // namespace

// c = op(a) op(b): da = dc op(b)^T, db = op(a)^T dc, transposed back.
void MatMul(const GradientRequest& r, std::vector<Output>* dx) {
  const Output a = r.x(0);
  const Output b = r.x(1);
  const Output dc = r.output_gradients[0];
  const bool ta = r.node.attributes.GetBool("transpose_a", false);
  const bool tb = r.node.attributes.GetBool("transpose_b", false);
  const bool is_shared = b.shape().rank() < a.shape().rank();
  if (ta && is_shared) {
    // a batch cannot be the second operand of a matrix: da^T = dc b^T, turned
    const Output turned = ops::MatMul(r.builder, dc, b, false, !tb);
    (*dx)[0] = SwapLastAxes(r, turned);
  } else {
    (*dx)[0] =
        ta ? ops::MatMul(r.builder, b, dc, tb, true) : ops::MatMul(r.builder, dc, b, false, !tb);
  }
  if (is_shared) {
    (*dx)[1] = SharedGradient(r, a, dc, ta, tb);
    return;
  }
  (*dx)[1] =
      tb ? ops::MatMul(r.builder, dc, a, true, ta) : ops::MatMul(r.builder, a, dc, !ta, false);
}

void Identity(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = r.output_gradients[0];
}

void Exp(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::Mul(r.builder, r.output_gradients[0], r.y(0));
}

void Log(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::Div(r.builder, r.output_gradients[0], r.x(0));
}

void Sqrt(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::Div(r.builder, r.output_gradients[0], ops::Scale(r.builder, r.y(0), 2));
}

void Neg(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::Neg(r.builder, r.output_gradients[0]);
}

// Zero at zero.
void Abs(const GradientRequest& r, std::vector<Output>* dx) {
  const Output dy = r.output_gradients[0];
  const Output positive = r.builder.Op("ReluGrad", {r.x(0), dy});
  const Output negative = r.builder.Op("ReluGrad", {ops::Neg(r.builder, r.x(0)), dy});
  (*dx)[0] = ops::Sub(r.builder, positive, negative);
}

void Square(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::Mul(r.builder, r.output_gradients[0], ops::Scale(r.builder, r.x(0), 2));
}

void Reciprocal(const GradientRequest& r, std::vector<Output>* dx) {
  const Output slope = ops::Neg(r.builder, ops::Square(r.builder, r.y(0)));
  (*dx)[0] = ops::Mul(r.builder, r.output_gradients[0], slope);
}

void Add(const GradientRequest& r, std::vector<Output>* dx) {
  SetBroadcast(r, r.output_gradients[0], r.output_gradients[0], dx);
}

void Sub(const GradientRequest& r, std::vector<Output>* dx) {
  const Output dy = r.output_gradients[0];
  (*dx)[0] = ops::SumTo(r.builder, dy, r.x(0));
  (*dx)[1] = ops::Neg(r.builder, ops::SumTo(r.builder, dy, r.x(1)));
}

void Mul(const GradientRequest& r, std::vector<Output>* dx) {
  const Output dy = r.output_gradients[0];
  SetBroadcast(r, ops::Mul(r.builder, dy, r.x(1)), ops::Mul(r.builder, dy, r.x(0)), dx);
}

void Div(const GradientRequest& r, std::vector<Output>* dx) {
  const Output da = ops::Div(r.builder, r.output_gradients[0], r.x(1));
  SetBroadcast(r, da, ops::Neg(r.builder, ops::Mul(r.builder, da, r.y(0))), dx);
}

// Equal elements give their gradient to a.
void Maximum(const GradientRequest& r, std::vector<Output>* dx) {
  const Output dy = r.output_gradients[0];
  const Output db = WhereLarger(r, r.x(1), r.x(0), dy);
  SetBroadcast(r, ops::Sub(r.builder, dy, db), db, dx);
}

void Minimum(const GradientRequest& r, std::vector<Output>* dx) {
  const Output dy = r.output_gradients[0];
  const Output db = WhereLarger(r, r.x(0), r.x(1), dy);
  SetBroadcast(r, ops::Sub(r.builder, dy, db), db, dx);
}

void AddN(const GradientRequest& r, std::vector<Output>* dx) {
  for (Output& gradient : *dx) gradient = r.output_gradients[0];
}

// Keeps all attributes, because the compiler sets a clone's weight later.
void Scale(const GradientRequest& r, std::vector<Output>* dx) {
  std::vector<Output> inputs = r.node.inputs;
  inputs[0] = r.output_gradients[0];
  (*dx)[0] = r.builder.Op("Scale", std::move(inputs), r.node.attributes);
}

void SumTo(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::BroadcastTo(r.builder, r.output_gradients[0], r.x(0));
}

void BroadcastTo(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::SumTo(r.builder, r.output_gradients[0], r.x(0));
}

void ReduceSum(const GradientRequest& r, std::vector<Output>* dx) {
  const Attributes kept{{"reduced_axes", r.node.attributes.GetInts("axes", {})}};
  const Output dy = r.builder.Op("Reshape", {r.output_gradients[0], r.x(0)}, kept);
  (*dx)[0] = ops::BroadcastTo(r.builder, dy, r.x(0));
}

// Like the gradient of the sum, times elements of y / elements of x. Scale computes this factor
// from its shape-only inputs.
void ReduceMean(const GradientRequest& r, std::vector<Output>* dx) {
  const Attributes kept{{"reduced_axes", r.node.attributes.GetInts("axes", {})}};
  const Output scaled =
      r.builder.Op("Scale", {r.output_gradients[0], r.y(0), r.x(0)}, {{"factor", 1.0}});
  const Output dy = r.builder.Op("Reshape", {scaled, r.x(0)}, kept);
  (*dx)[0] = ops::BroadcastTo(r.builder, dy, r.x(0));
}

void L2Loss(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::Mul(r.builder, r.x(0), r.output_gradients[0]);
}

void Reshape(const GradientRequest& r, std::vector<Output>* dx) {
  (*dx)[0] = ops::ReshapeLike(r.builder, r.output_gradients[0], r.x(0));
}

void Transpose(const GradientRequest& r, std::vector<Output>* dx) {
  const std::vector<int64_t> perm = r.node.attributes.GetInts("perm", {});
  std::vector<int64_t> inverse(perm.size());
  for (size_t i = 0; i < perm.size(); ++i) inverse[perm[i]] = static_cast<int64_t>(i);
  (*dx)[0] = r.builder.Op("Transpose", {r.output_gradients[0]}, {{"perm", std::move(inverse)}});
}

void Concat(const GradientRequest& r, std::vector<Output>* dx) {
  std::vector<Output> inputs = {r.output_gradients[0]};
  inputs.insert(inputs.end(), r.node.inputs.begin(), r.node.inputs.end());
  const Node* parts = r.builder.AddNode("ConcatGrad", std::move(inputs), r.node.attributes);
  for (size_t i = 0; i < dx->size(); ++i) (*dx)[i] = Output{parts, static_cast<int>(i)};
}

// Parts without a gradient count as zeros.
void Split(const GradientRequest& r, std::vector<Output>* dx) {
  std::vector<Output> parts;
  for (size_t i = 0; i < r.output_gradients.size(); ++i) {
    Output part = r.output_gradients[i];
    if (!part.valid()) part = ops::Scale(r.builder, r.y(static_cast<int>(i)), 0);
    parts.push_back(part);
  }
  (*dx)[0] =
      r.builder.Op("Concat", std::move(parts), {{"axis", r.node.attributes.GetInt("axis", 0)}});
}

void Cast(const GradientRequest& r, std::vector<Output>* dx) {
  if (!IsFloating(r.x(0).dtype())) return;
  (*dx)[0] =
      r.builder.Op("Cast", {r.output_gradients[0]}, {{"to", static_cast<int64_t>(r.x(0).dtype())}});
}

}  // namespace shoal::gradients
