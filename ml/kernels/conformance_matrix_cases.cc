// Matrix products and dense layers.

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {

void AddMatrices(CaseTable& table) {
  const struct {
    int64_t m, k, n;
  } sizes[] = {{1, 1, 1},
               {5, 7, 3},
               {33, 20, 10},
               {64, 64, 64},
               {128, 100, 1},
               {2, 300, 17},
               {1 + table.Below(60), 1 + table.Below(200), 1 + table.Below(60)}};
  for (const auto& [m, k, n] : sizes) {
    const std::string name = absl::StrCat(m, "x", k, "x", n);
    for (int form = 0; form < 4; ++form) {
      const bool ta = form & 1, tb = form & 2;
      const Attributes attributes{{"transpose_a", ta}, {"transpose_b", tb}};
      const Tensor a = table.Uniform(ta ? Shape({k, m}) : Shape({m, k}));
      const Tensor b = table.Uniform(tb ? Shape({n, k}) : Shape({k, n}));
      table.Add(absl::StrCat(name, ta ? "_ta" : "", tb ? "_tb" : ""),
                {"MatMul", attributes, {a, b}, {F32({m, n})}}, kSum);
    }
    for (const auto& batch : {Shape({3}), Shape({2, 2})}) {
      for (int form = 0; form < 8; ++form) {
        const bool ta = form & 1, tb = form & 2, is_shared = form & 4;
        const auto of = [&](bool is_batch, int64_t rows, int64_t columns) {
          Shape shape = is_batch ? batch : Shape();
          shape.AddDim(rows);
          shape.AddDim(columns);
          return shape;
        };
        const Tensor a = table.Uniform(ta ? of(true, k, m) : of(true, m, k));
        const Tensor b = table.Uniform(tb ? of(!is_shared, n, k) : of(!is_shared, k, n));
        table.Add(
            absl::StrCat(name, "_batch", NameOf(batch), "_", form),
            {"MatMul", {{"transpose_a", ta}, {"transpose_b", tb}}, {a, b}, {F32(of(true, m, n))}},
            kSum);
      }
    }
    for (const char* activation : {"none", "relu", "relu6", "sigmoid", "tanh"}) {
      for (const char* bias_kind : {"without", "vector", "scalar"}) {
        const bool has_bias = bias_kind[0] != 'w';
        const Shape bias_shape = bias_kind[0] == 's' ? Shape({}) : Shape({n});
        OpCall call{"Dense",
                    {{"activation", std::string(activation)}},
                    {table.Uniform({m, k}), table.Uniform({k, n})},
                    {F32({m, n})}};
        if (has_bias) call.inputs.push_back(table.Uniform(bias_shape));
        const std::string what = absl::StrCat(name, "_", activation, "_bias_", bias_kind);
        const Tensor y = CaseTable::Reference(call)[0];
        OpCall gradient{"DenseGrad", call.attributes, {}, {F32({m, k}), F32({k, n})}};
        gradient.inputs = {call.inputs[0], call.inputs[1], y, table.Uniform({m, n})};
        gradient.attributes.Set("has_bias", has_bias);
        gradient.attributes.Set("bias_scalar", bias_kind[0] == 's');
        if (has_bias) gradient.outputs.push_back(F32(bias_shape));
        table.Add(what, call, kSum);
        table.Add(what, gradient, 4 * kSum);
      }
    }
  }
}

// DenseGrad with the ReLU, and the bias, of the layer before.
void AddChainedDenseGradients(CaseTable& table) {
  const struct { int64_t m, k, n; } sizes[] = {{5, 7, 3}, {50, 40, 1}, {29, 33, 70}, {300, 20, 8}};
  for (const auto& [m, k, n] : sizes) {
    for (const char* activation : {"none", "sigmoid"}) {
      const Attributes attributes{{"activation", std::string(activation)}};
      const OpCall before{"Relu", {}, {table.Uniform({m, k})}, {F32({m, k})}};
      const OpCall dense{"Dense",
                         attributes,
                         {CaseTable::Reference(before)[0], table.Uniform({k, n})},
                         {F32({m, n})}};
      OpCall gradient{"DenseGrad", attributes, {}, {F32({m, k}), F32({k, n}), F32({n})}};
      gradient.inputs = {dense.inputs[0], dense.inputs[1], CaseTable::Reference(dense)[0],
                         table.Uniform({m, n})};
      gradient.attributes.Set("has_bias", true);
      gradient.attributes.Set("input_relu", true);
      const std::string name = absl::StrCat(m, "x", k, "x", n, "_", activation, "_input_relu");
      table.Add(name, gradient, 4 * kSum);
      gradient.attributes.Set("has_input_bias", true);
      for (const Shape& bias : {Shape({k}), Shape({})}) {
        OpCall with_bias = gradient;
        with_bias.outputs.push_back(F32(bias));
        table.AddNeedingFirstOutput(absl::StrCat(name, "_bias_", NameOf(bias)), with_bias,
                                    4 * kSum);
      }
    }
  }
}

}  // namespace shoal::conformance
