// Calls with NaN in one input.

#include <cmath>

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {

void AddNans(CaseTable& table) {
  const Shape shape({6, 40});
  Tensor x = table.Uniform(shape, 0.1, 0.9);
  x.mutable_span<float>()[87] = std::nanf("");
  const Tensor y = table.Uniform(shape, 0.1, 0.9), w = table.Uniform({40, 20});
  for (const char* op :
       {"Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs", "Square", "Reciprocal",
        "Softmax", "LogSoftmax", "LeakyRelu", "Elu", "Gelu", "Silu", "Softplus", "Erf", "Clip"}) {
    table.Add("nan", {op, {}, {x}, {F32(shape)}}, 0);
  }
  for (const char* op :
       {"Add", "Sub", "Mul", "Div", "Pow", "Maximum", "Minimum", "SquaredDifference",
        "AbsoluteDifference", "Huber", "SigmoidCrossEntropy", "LogLoss"}) {
    table.Add("nan", {op, {}, {x, y}, {F32(shape)}}, 0);
  }
  table.Add("nan", {"MatMul", {}, {x, w}, {F32({6, 20})}}, 0);
  const TensorSpec bfloat16{DataType::kBfloat16, shape};
  const Tensor rounded = CaseTable::Reference({"Cast", {}, {x}, {bfloat16}})[0];
  table.Add("nan_bfloat16", {"Cast", {}, {rounded}, {F32(shape)}}, 0);
  const Tensor factor =
      CaseTable::Reference({"Cast", {}, {w}, {{DataType::kBfloat16, w.shape()}}})[0];
  table.Add("nan_bfloat16", {"MatMul", {}, {rounded, factor}, {F32({6, 20})}}, 0);
  for (const char* activation : {"none", "relu", "relu6", "sigmoid", "tanh"}) {
    const Attributes attributes{{"activation", std::string(activation)}};
    table.Add(absl::StrCat("nan_", activation),
              {"Dense", attributes, {x, w, table.Uniform({20})}, {F32({6, 20})}}, 0);
  }
  table.Add("nan", {"ReduceSum", {{"axes", Ints{1}}}, {x}, {F32({6})}}, 0);
  table.Add("nan", {"ReduceMean", {}, {x}, {F32({})}}, 0);
  for (const char* op : {"ReduceMax", "ReduceMin"}) {
    table.Add("nan_rows", {op, {{"axes", Ints{1}}}, {x}, {F32({6})}}, 0);
    table.Add("nan_columns", {op, {{"axes", Ints{0}}}, {x}, {F32({40})}}, 0);
  }
  table.Add("nan", {"SumTo", {}, {x}, {F32({40})}}, 0);
  table.Add("nan", {"L2Loss", {}, {x}, {F32({})}}, 0);
  table.Add("nan", {"MeanSquaredError", {}, {x, y}, {F32({})}}, 0);
  table.Add("nan",
            {"SparseSoftmaxCrossEntropy", {}, {x, table.Labels(6, 40)}, {F32({6}), F32(shape)}}, 0);
}

}  // namespace shoal::conformance
