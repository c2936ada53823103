// Ops on elements, with and without broadcasting.

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {

void AddElementwise(CaseTable& table) {
  const struct {
    const char* op;
    double low, high, tolerance;
  } unary[] = {
      {"Relu", -1, 1, kExact},
      {"Sigmoid", -20, 20, kTranscendental},
      {"Tanh", -10, 10, kTranscendental},
      {"Exp", -30, 3, kTranscendental},
      {"Log", 1e-3, 10, kTranscendental},
      {"Sqrt", 0, 10, kExact},
      {"Neg", -1, 1, kExact},
      {"Abs", -1, 1, kExact},
      {"Square", -3, 3, kExact},
      {"Reciprocal", 0.1, 3, kExact},
      {"Identity", -1, 1, 0},
      {"Statistic", -1, 1, 0},
  };
  for (const Shape& shape : {Shape({}), Shape({1}), Shape({17}), Shape({64, 33}),
                             Shape({2, 16, 5, 3}), Shape({3, 32, 4, 4})}) {
    for (const auto& [op, low, high, tolerance] : unary) {
      table.Add(NameOf(shape), {op, {}, {table.Uniform(shape, low, high)}, {F32(shape)}},
                tolerance);
    }
    for (const char* op : {"ReluGrad", "SigmoidGrad", "TanhGrad"}) {
      const Tensor y = table.Uniform(shape), dy = table.Uniform(shape);
      table.Add(NameOf(shape), {op, {}, {y, dy}, {F32(shape)}}, 5e-7);
    }
    const Tensor x = table.Uniform(shape);
    table.Add(NameOf(shape), {"Scale", {{"factor", 0.37}}, {x}, {F32(shape)}}, kExact);
    table.Add(NameOf(shape),
              {"AddN", {}, {x, table.Uniform(shape), table.Uniform(shape)}, {F32(shape)}}, 3e-7);
  }
}

void AddBroadcasting(CaseTable& table) {
  const struct {
    Shape a, b, c;
  } shapes[] = {
      {{40}, {40}, {40}},
      {{7, 33}, {33}, {7, 33}},
      {{}, {5, 6}, {5, 6}},
      {{5, 6}, {}, {5, 6}},
      {{4, 1}, {4, 9}, {4, 9}},
      {{1, 9}, {4, 1}, {4, 9}},
      {{2, 1, 3}, {5, 1}, {2, 5, 3}},
      {{2, 16, 3, 5}, {16, 1, 1}, {2, 16, 3, 5}},
      {{2, 32, 4, 4}, {2, 32, 4, 4}, {2, 32, 4, 4}},
  };
  for (const auto& [a, b, c] : shapes) {
    const std::string name = absl::StrCat(NameOf(a), "_", NameOf(b));
    for (const char* op : {"Add", "Sub", "Mul", "Div", "Maximum", "Minimum", "SquaredDifference"}) {
      const Tensor x = table.Uniform(a), y = table.Uniform(b, 0.3, 2);
      table.Add(name, {op, {}, {x, y}, {F32(c)}}, 2e-7);
    }
    if (b == c || a != c) continue;
    table.Add(name, {"BroadcastTo", {}, {table.Uniform(b)}, {F32(c)}}, 0);
    table.Add(name, {"SumTo", {}, {table.Uniform(c)}, {F32(b)}}, kSum);
  }
  table.Add("all", {"SumTo", {}, {table.Uniform({33, 70})}, {F32({})}}, kSum);
  table.Add("columns", {"SumTo", {}, {table.Uniform({33, 70})}, {F32({33, 1})}}, kSum);
  table.Add("rows", {"SumTo", {}, {table.Uniform({2000, 5})}, {F32({5})}}, kSum);
}

}  // namespace shoal::conformance
