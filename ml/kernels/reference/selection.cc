// Comparing and choosing elements of any type.

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

template <bool (*F)(double, double)>
void Compare(const Call& call) {
  const Shape& shape = call.OutShape(0);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const auto operand = [&](size_t k) {
      return LoadElement(call.inputs[k].dtype, call.context.inputs[k],
                         BroadcastIndex(call.InShape(k), shape, i));
    };
    call.Out<bool>(0)[i] = F(operand(0), operand(1));
  }
}

bool Equal(double a, double b) { return a == b; }
bool Less(double a, double b) { return a < b; }
bool Greater(double a, double b) { return a > b; }

void Where(const Call& call) {
  const Shape& shape = call.OutShape(0);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const bool holds = call.In<bool>(0)[BroadcastIndex(call.InShape(0), shape, i)];
    const size_t chosen = holds ? 1 : 2;
    CopyElement(SizeOf(call.outputs[0].dtype), call.context.inputs[chosen],
                BroadcastIndex(call.InShape(chosen), shape, i), call.context.outputs[0], i);
  }
}

constexpr Op kOps[] = {
    {"Equal", &Compare<Equal>, &Compare<Equal>},
    {"Less", &Compare<Less>, &Compare<Less>},
    {"Greater", &Compare<Greater>, &Compare<Greater>},
    {"Where", &Where, &Where},
};

}  // namespace

absl::Span<const Op> SelectionOps() { return kOps; }

}  // namespace shoal::reference
