#include "ml/kernels/conformance_cases.h"

#include <cmath>
#include <random>
#include <utility>

#include "absl/strings/str_cat.h"

#include "ml/kernels/reference/reference_kernels.h"

namespace shoal {
namespace {

using Ints = std::vector<int64_t>;

// Rounding of one elementwise operation, of an exponential or logarithm, of a sum of n terms.
constexpr double kExact = 1e-7;
constexpr double kTranscendental = 1e-6;
constexpr double kSum = 5e-6;
// Winograd's transforms lose about two digits.
constexpr double kConvolution = 1e-4;

TensorSpec F32(const Shape& shape) { return {DataType::kFloat32, shape}; }
TensorSpec Bytes(const Shape& shape) { return {DataType::kUint8, shape}; }

// Adds cases; values come from one sequence of random numbers.
class CaseTable {
 public:
  Tensor Uniform(const Shape& shape, double low = -1, double high = 1) {
    std::uniform_real_distribution<float> values(static_cast<float>(low), static_cast<float>(high));
    Tensor tensor(F32(shape));
    for (float& v : tensor.mutable_span<float>()) v = values(random_);
    return tensor;
  }

  Tensor Labels(int64_t n, int64_t classes) {
    Tensor tensor(DataType::kInt32, {n});
    for (int32_t& v : tensor.mutable_span<int32_t>()) v = static_cast<int32_t>(Below(classes));
    return tensor;
  }

  Tensor ZeroOrOne(const Shape& shape) {
    Tensor tensor(F32(shape));
    for (float& v : tensor.mutable_span<float>()) v = static_cast<float>(Below(2));
    return tensor;
  }

  // Labels that are distributions.
  Tensor Distributions(const Shape& shape) {
    return Reference({"Softmax", {}, {Uniform(shape)}, {F32(shape)}})[0];
  }

  int64_t Below(int64_t bound) {
    return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
  }

  static std::vector<Tensor> Reference(const OpCall& call) {
    return RunOp(CreateReferenceKernel, call).value();
  }

  void Add(const std::string& what, OpCall call, double tolerance, double byte_mismatch = 0) {
    cases_.push_back({absl::StrCat(call.op, "_", what), std::move(call), tolerance, byte_mismatch});
  }

  std::vector<ConformanceCase> Take() { return std::move(cases_); }

 private:
  std::mt19937 random_{20240229};
  std::vector<ConformanceCase> cases_;
};

std::string NameOf(const Shape& shape) {
  std::string name;
  for (int64_t dim : shape.dims()) absl::StrAppend(&name, name.empty() ? "" : "x", dim);
  return name.empty() ? "scalar" : name;
}

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

void AddReductions(CaseTable& table) {
  const struct {
    Shape from, to;
    Ints axes;
    bool keepdims;
  } cases[] = {
      {{37}, {}, {}, false},
      {{6, 50}, {6}, {1}, false},
      {{6, 50}, {50}, {0}, false},
      {{6, 50}, {6, 1}, {-1}, true},
      {{3, 4, 5}, {4}, {0, 2}, false},
      {{2, 16, 3, 5}, {16}, {0, 2, 3}, false},
      {{2, 16, 3, 5}, {2, 16, 1, 1}, {2, 3}, true},
  };
  for (const auto& c : cases) {
    const std::string name = absl::StrCat(NameOf(c.from), "_to_", NameOf(c.to));
    const Attributes attributes{{"axes", c.axes}, {"keepdims", c.keepdims}};
    for (const char* op : {"ReduceSum", "ReduceMean"}) {
      table.Add(name, {op, attributes, {table.Uniform(c.from, 0, 1)}, {F32(c.to)}}, kSum);
    }
  }
  for (const Shape& shape : {Shape({1000}), Shape({33, 17})}) {
    table.Add(NameOf(shape), {"L2Loss", {}, {table.Uniform(shape)}, {F32({})}}, kSum);
  }
}

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
    for (const char* activation : {"none", "relu", "sigmoid", "tanh"}) {
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

struct ConvolutionCase {
  const char* name;
  Shape x, w;
  Ints strides = {1, 1}, pads = {0, 0, 0, 0}, dilations = {1, 1};
  int64_t group = 1;
  const char* activation = "none";
};

int64_t OutputSize(int64_t size, int64_t kernel, int64_t stride, int64_t pads, int64_t dilation) {
  return (size + pads - (kernel - 1) * dilation - 1) / stride + 1;
}

Shape OutputShape(const ConvolutionCase& c) {
  Shape y({c.x.dim(0), c.w.dim(0), 0, 0});
  for (size_t k = 0; k < 2; ++k) {
    const int d = static_cast<int>(k) + 2;
    y.set_dim(d, OutputSize(c.x.dim(d), c.w.dim(d), c.strides[k], c.pads[k] + c.pads[k + 2],
                            c.dilations[k]));
  }
  return y;
}

Attributes ConvolutionAttributes(const ConvolutionCase& c) {
  return {{"strides", c.strides},
          {"pads", c.pads},
          {"dilations", c.dilations},
          {"group", c.group},
          {"activation", std::string(c.activation)}};
}

std::vector<ConvolutionCase> ConvolutionCases() {
  return {
      {"plain3x3", {2, 3, 8, 9}, {5, 3, 3, 3}},
      {"lenet1", {3, 1, 28, 28}, {32, 1, 5, 5}, {1, 1}, {2, 2, 2, 2}, {1, 1}, 1, "relu"},
      {"lenet2", {2, 32, 14, 14}, {64, 32, 5, 5}, {1, 1}, {2, 2, 2, 2}, {1, 1}, 1, "relu"},
      {"blocked3x3", {2, 16, 7, 7}, {32, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {"stride2", {2, 16, 9, 8}, {16, 16, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 1, "tanh"},
      {"pointwise", {2, 16, 6, 5}, {32, 16, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 1, "sigmoid"},
      {"asymmetric", {1, 4, 7, 6}, {3, 4, 2, 3}, {1, 2}, {0, 1, 1, 2}},
      {"dilated", {1, 3, 9, 9}, {4, 3, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}, 1, "relu"},
      {"grouped", {2, 8, 6, 6}, {4, 4, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2},
      {"depthwise", {2, 16, 6, 6}, {16, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 16, "relu"},
  };
}

void AddConvolutions(CaseTable& table) {
  for (const ConvolutionCase& c : ConvolutionCases()) {
    const Shape y_shape = OutputShape(c);
    for (bool has_bias : {false, true}) {
      OpCall call{"Conv",
                  ConvolutionAttributes(c),
                  {table.Uniform(c.x), table.Uniform(c.w)},
                  {F32(y_shape)}};
      if (has_bias) call.inputs.push_back(table.Uniform({c.w.dim(0)}));
      table.Add(absl::StrCat(c.name, has_bias ? "_bias" : ""), call, kConvolution);
      if (!has_bias) continue;
      const Tensor y = CaseTable::Reference(call)[0];
      table.Add(c.name,
                {"ConvGrad",
                 call.attributes,
                 {call.inputs[0], call.inputs[1], y, table.Uniform(y_shape)},
                 {F32(c.x), F32(c.w), F32({c.w.dim(0)})}},
                kConvolution);
    }
  }
}

void AddConvolutionsWithPool(CaseTable& table) {
  const std::vector<ConvolutionCase> cases = {
      {"lenet1", {5, 1, 28, 28}, {32, 1, 5, 5}, {1, 1}, {2, 2, 2, 2}},
      {"lenet2", {3, 32, 14, 14}, {64, 32, 5, 5}, {1, 1}, {2, 2, 2, 2}},
      {"small", {2, 16, 8, 8}, {16, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {"valid", {2, 1, 9, 9}, {16, 1, 3, 3}},
  };
  for (const ConvolutionCase& c : cases) {
    for (bool relu : {true, false}) {
      Shape pooled = OutputShape(c);
      pooled.set_dim(2, OutputSize(pooled.dim(2), 2, 2, 0, 1));
      pooled.set_dim(3, OutputSize(pooled.dim(3), 2, 2, 0, 1));
      Attributes attributes = ConvolutionAttributes(c);
      attributes.Erase("activation");
      attributes.Set("pool_kernel_shape", Ints{2, 2});
      attributes.Set("pool_strides", Ints{2, 2});
      attributes.Set("relu", relu);
      const OpCall call{"ConvPool",
                        attributes,
                        {table.Uniform(c.x), table.Uniform(c.w), table.Uniform({c.w.dim(0)})},
                        {F32(pooled), Bytes(pooled)}};
      const std::string what = absl::StrCat(c.name, relu ? "_relu" : "");
      table.Add(what, call, kConvolution, 0.002);
      const Tensor index = CaseTable::Reference(call)[1];
      table.Add(what,
                {"ConvPoolGrad",
                 attributes,
                 {call.inputs[0], call.inputs[1], index, table.Uniform(pooled)},
                 {F32(c.x), F32(c.w), F32({c.w.dim(0)})}},
                kConvolution);
    }
  }
}

struct PoolCase {
  const char* name;
  Shape x;
  Ints kernel, strides, pads = {0, 0, 0, 0};
};

void AddPools(CaseTable& table) {
  const std::vector<PoolCase> cases = {
      {"2x2", {2, 3, 6, 8}, {2, 2}, {2, 2}},
      {"2x2_blocked", {2, 32, 6, 6}, {2, 2}, {2, 2}},
      {"3x3_stride2", {2, 16, 9, 7}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
      {"3x2_overlapping", {1, 5, 7, 7}, {3, 2}, {1, 1}, {0, 0, 1, 1}},
      {"odd", {2, 16, 7, 5}, {2, 2}, {2, 2}},
      {"whole", {2, 16, 4, 4}, {4, 4}, {4, 4}},
  };
  for (const PoolCase& c : cases) {
    Shape y = c.x;
    for (size_t k = 0; k < 2; ++k) {
      const int d = static_cast<int>(k) + 2;
      y.set_dim(d, OutputSize(c.x.dim(d), c.kernel[k], c.strides[k], c.pads[k] + c.pads[k + 2], 1));
    }
    for (bool flag : {false, true}) {
      Attributes attributes{{"kernel_shape", c.kernel}, {"strides", c.strides}, {"pads", c.pads}};
      attributes.Set("count_include_pad", flag);
      const std::string average = absl::StrCat(c.name, flag ? "_with_pads" : "");
      table.Add(average, {"AveragePool", attributes, {table.Uniform(c.x)}, {F32(y)}}, 1e-6);
      table.Add(average, {"AveragePoolGrad", attributes, {table.Uniform(y)}, {F32(c.x)}}, 1e-6);
      attributes.Erase("count_include_pad");
      attributes.Set("relu", flag);
      const OpCall max{"MaxPool", attributes, {table.Uniform(c.x)}, {F32(y), Bytes(y)}};
      const std::string what = absl::StrCat(c.name, flag ? "_relu" : "");
      table.Add(what, max, 0);
      const Tensor index = CaseTable::Reference(max)[1];
      table.Add(what, {"MaxPoolGrad", attributes, {index, table.Uniform(y)}, {F32(c.x)}}, 1e-6);
    }
  }
}

void AddSoftmaxes(CaseTable& table) {
  for (const Shape& shape : {Shape({1, 2}), Shape({7, 10}), Shape({130, 17}), Shape({3, 1000})}) {
    const int64_t rows = shape.dim(0), classes = shape.dim(1);
    const std::string name = NameOf(shape);
    const Tensor logits = table.Uniform(shape, -8, 8), dy = table.Uniform(shape);
    for (const std::string op : {"Softmax", "LogSoftmax"}) {
      const OpCall call{op, {}, {logits}, {F32(shape)}};
      table.Add(name, call, 2e-6);
      table.Add(name, {op + "Grad", {}, {CaseTable::Reference(call)[0], dy}, {F32(shape)}}, 5e-6);
    }
    for (double smoothing : {0.0, 0.1}) {
      const Attributes attributes{{"label_smoothing", smoothing}};
      const std::string what = absl::StrCat(name, smoothing > 0 ? "_smoothed" : "");
      const OpCall call{"SparseSoftmaxCrossEntropy",
                        attributes,
                        {logits, table.Labels(rows, classes)},
                        {F32({rows}), F32(shape)}};
      table.Add(what, call, 2e-6);
      table.Add(what,
                {"SparseSoftmaxCrossEntropyGrad",
                 attributes,
                 {CaseTable::Reference(call)[1], call.inputs[1], table.Uniform({rows})},
                 {F32(shape)}},
                2e-6);
    }
    const OpCall dense{
        "SoftmaxCrossEntropy", {}, {logits, table.Distributions(shape)}, {F32({rows}), F32(shape)}};
    table.Add(name, dense, 2e-6);
    table.Add(name,
              {"SoftmaxCrossEntropyGrad",
               {},
               {CaseTable::Reference(dense)[1], dense.inputs[1], table.Uniform({rows})},
               {F32(shape)}},
              2e-6);
    table.Add(name, {"CorrectCount", {}, {logits, table.Labels(rows, classes)}, {F32({})}}, 0);
  }
}

void AddLosses(CaseTable& table) {
  for (const Shape& shape : {Shape({}), Shape({33}), Shape({64, 70})}) {
    for (const std::string op :
         {"AbsoluteDifference", "Hinge", "Huber", "SigmoidCrossEntropy", "LogLoss"}) {
      const bool is_probability = op == "LogLoss";
      const Tensor p = table.Uniform(shape, is_probability ? 0.01 : -3, is_probability ? 0.99 : 3);
      const Tensor t = table.ZeroOrOne(shape);
      const Attributes attributes = op == "Huber" ? Attributes{{"delta", 0.7}} : Attributes();
      table.Add(NameOf(shape), {op, attributes, {p, t}, {F32(shape)}}, 2e-6);
      table.Add(NameOf(shape),
                {op + "Grad", attributes, {p, t, table.Uniform(shape)}, {F32(shape)}}, 2e-6);
    }
  }
  const std::pair<Shape, Shape> shapes[] = {{{20}, {20}},
                                            {{100, 1}, {100, 60}},
                                            {{40, 30}, {40, 30}},
                                            {{30}, {40, 30}},
                                            {{40, 30}, {40, 1}}};
  for (const auto& [p, t] : shapes) {
    const std::string name = absl::StrCat(NameOf(p), "_", NameOf(t));
    const Tensor prediction = table.Uniform(p), target = table.Uniform(t, 1, 3);
    table.Add(name, {"MeanSquaredError", {}, {prediction, target}, {F32({})}}, kSum);
    table.Add(name, {"MeanSquaredErrorGrad", {}, {prediction, target, table.Uniform({})}, {F32(p)}},
              kSum);
  }
}

void AddNormalization(CaseTable& table) {
  for (const Shape& shape :
       {Shape({50, 7}), Shape({128, 32}), Shape({4, 16, 5, 6}), Shape({3, 5, 4, 4})}) {
    for (bool training : {true, false}) {
      const Attributes attributes{{"training", training}, {"epsilon", 1e-3}};
      const Shape c({shape.dim(1)});
      const OpCall call{"BatchNorm",
                        attributes,
                        {table.Uniform(shape, 1, 4), table.Uniform(c, 0.5, 2), table.Uniform(c),
                         table.Uniform(c, 2, 3), table.Uniform(c, 0.5, 2)},
                        {F32(shape), F32(c), F32(c), F32(c)}};
      const std::string name = absl::StrCat(NameOf(shape), training ? "_training" : "_inference");
      table.Add(name, call, 2e-5);
      if (!training) continue;
      const auto y = CaseTable::Reference(call);
      table.Add(name,
                {"BatchNormGrad",
                 attributes,
                 {call.inputs[0], call.inputs[1], y[1], y[3], table.Uniform(shape)},
                 {F32(shape), F32(c), F32(c)}},
                2e-5);
    }
  }
}

void AddMoves(CaseTable& table) {
  const Tensor x = table.Uniform({2, 6, 5});
  table.Add("flatten", {"Reshape", {}, {x}, {F32({2, 30})}}, 0);
  table.Add("reversed", {"Transpose", {{"perm", Ints{2, 1, 0}}}, {x}, {F32({5, 6, 2})}}, 0);
  table.Add("matrix",
            {"Transpose", {{"perm", Ints{1, 0}}}, {table.Uniform({33, 50})}, {F32({50, 33})}}, 0);
  const Attributes axis{{"axis", int64_t{1}}};
  const Tensor a = table.Uniform({2, 1, 5}), b = table.Uniform({2, 4, 5});
  table.Add("axis1", {"Concat", axis, {a, x, b}, {F32({2, 11, 5})}}, 0);
  table.Add("axis1", {"Split", axis, {x}, {F32({2, 1, 5}), F32({2, 3, 5}), F32({2, 2, 5})}}, 0);
  table.Add("axis1", {"ConcatGrad", axis, {x}, {F32({2, 2, 5}), F32({2, 4, 5})}}, 0);
  table.Add("int", {"Cast", {{"to", int64_t{0}}}, {table.Labels(9, 100)}, {F32({9})}}, 0);
  table.Add("value", {"Constant", {{"value", 0.5}}, {}, {F32({3, 5})}}, 0);
  TensorSpec blocked = F32({2, 32, 3, 5});
  const Tensor images = table.Uniform(blocked.shape);
  blocked.layout = Layout::kBlocked16;
  const OpCall there{"ReorderLayout", {}, {images}, {blocked}};
  table.Add("there", there, 0);
  table.Add("back", {"ReorderLayout", {}, CaseTable::Reference(there), {images.spec()}}, 0);
}

}  // namespace

std::vector<ConformanceCase> ConformanceCases() {
  CaseTable table;
  AddElementwise(table);
  AddBroadcasting(table);
  AddReductions(table);
  AddMatrices(table);
  AddConvolutions(table);
  AddConvolutionsWithPool(table);
  AddPools(table);
  AddSoftmaxes(table);
  AddLosses(table);
  AddNormalization(table);
  AddMoves(table);
  return table.Take();
}

std::vector<ConformanceCase> NanCases() {
  CaseTable table;
  const Shape shape({6, 40});
  Tensor x = table.Uniform(shape, 0.1, 0.9);
  x.mutable_span<float>()[87] = std::nanf("");
  const Tensor y = table.Uniform(shape, 0.1, 0.9), w = table.Uniform({40, 20});
  for (const char* op : {"Relu", "Sigmoid", "Tanh", "Exp", "Log", "Sqrt", "Neg", "Abs", "Square",
                         "Reciprocal", "Softmax", "LogSoftmax"}) {
    table.Add("nan", {op, {}, {x}, {F32(shape)}}, 0);
  }
  for (const char* op : {"Add", "Sub", "Mul", "Div", "Maximum", "Minimum", "SquaredDifference",
                         "AbsoluteDifference", "Huber", "SigmoidCrossEntropy", "LogLoss"}) {
    table.Add("nan", {op, {}, {x, y}, {F32(shape)}}, 0);
  }
  table.Add("nan", {"MatMul", {}, {x, w}, {F32({6, 20})}}, 0);
  for (const char* activation : {"none", "relu", "sigmoid", "tanh"}) {
    const Attributes attributes{{"activation", std::string(activation)}};
    table.Add(absl::StrCat("nan_", activation),
              {"Dense", attributes, {x, w, table.Uniform({20})}, {F32({6, 20})}}, 0);
  }
  table.Add("nan", {"ReduceSum", {{"axes", Ints{1}}}, {x}, {F32({6})}}, 0);
  table.Add("nan", {"ReduceMean", {}, {x}, {F32({})}}, 0);
  table.Add("nan", {"SumTo", {}, {x}, {F32({40})}}, 0);
  table.Add("nan", {"L2Loss", {}, {x}, {F32({})}}, 0);
  table.Add("nan", {"MeanSquaredError", {}, {x, y}, {F32({})}}, 0);
  table.Add("nan",
            {"SparseSoftmaxCrossEntropy", {}, {x, table.Labels(6, 40)}, {F32({6}), F32(shape)}}, 0);
  return table.Take();
}

}  // namespace shoal
