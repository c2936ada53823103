// Ops on images: convolutions, pools, normalization.

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {
namespace {

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
      {"grouped_blocks", {2, 32, 6, 6}, {48, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2, "relu"},
      {"grouped_by_8", {2, 32, 5, 7}, {32, 8, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 4},
      {"grouped_by_3", {2, 48, 5, 5}, {32, 3, 1, 1}, {1, 1}, {0, 0, 0, 0}, {1, 1}, 16},
      {"depthwise", {2, 16, 6, 6}, {16, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 16, "relu"},
      {"depthwise6", {2, 16, 6, 6}, {16, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 16, "relu6"},
      {"relu6", {2, 16, 7, 7}, {32, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, "relu6"},
      {"depthwise_same_stride2", {2, 32, 8, 8}, {32, 1, 3, 3}, {2, 2}, {0, 0, 1, 1}, {1, 1}, 32},
      {"depthwise_24", {2, 24, 7, 7}, {24, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 24, "relu"},
      {"depthwise_24_stride2", {2, 24, 7, 7}, {24, 1, 3, 3}, {2, 2}, {1, 1, 1, 1}, {1, 1}, 24},
      {"depthwise_twice", {2, 16, 5, 5}, {32, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 16},
      {"depthwise_dilated", {2, 16, 9, 9}, {16, 1, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}, 16},
      {"dilated_blocks", {2, 32, 9, 9}, {16, 32, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}},
      {"asymmetric_blocks", {2, 16, 9, 8}, {32, 16, 1, 7}, {1, 1}, {0, 3, 0, 3}},
      {"asymmetric_stride", {2, 16, 9, 8}, {32, 16, 3, 5}, {2, 1}, {1, 2, 0, 1}, {1, 1}, 1, "relu"},
      {"stem7x7", {2, 3, 20, 20}, {64, 3, 7, 7}, {2, 2}, {3, 3, 3, 3}},
      {"shortcut", {2, 32, 8, 8}, {64, 32, 1, 1}, {2, 2}},
      {"tiny_map", {8, 64, 2, 2}, {80, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 1, "relu"},
      {"tiny_strided", {9, 64, 4, 4}, {64, 64, 3, 3}, {2, 2}, {1, 1, 1, 1}},
      {"tiny_pixel", {8, 64, 1, 1}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {"to_24", {2, 96, 6, 6}, {24, 96, 1, 1}},
      {"from_24", {2, 24, 6, 6}, {144, 24, 1, 1}},
  };
}

struct PoolCase {
  const char* name;
  Shape x;
  Ints kernel, strides, pads = {0, 0, 0, 0};
};

}  // namespace

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

void AddConvolutionsWithNorm(CaseTable& table) {
  const std::vector<ConvolutionCase> cases = {
      {"plain", {3, 5, 9, 8}, {6, 5, 3, 2}, {2, 1}, {1, 0, 0, 1}},
      {"plain_to_blocks", {5, 24, 12, 12}, {144, 24, 1, 1}},
      {"blocks_to_plain", {3, 96, 12, 12}, {24, 96, 1, 1}},
      {"depthwise", {3, 32, 24, 24}, {32, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 32},
      {"depthwise_strided", {2, 96, 48, 48}, {96, 1, 3, 3}, {2, 2}, {0, 0, 1, 1}, {1, 1}, 96},
      {"large_maps", {3, 16, 60, 60}, {48, 16, 1, 1}},
      {"small_maps", {4, 64, 2, 2}, {64, 64, 3, 3}, {1, 1}, {1, 1, 1, 1}},
  };
  for (const ConvolutionCase& c : cases) {
    const Shape y = OutputShape(c), channels({c.w.dim(0)});
    for (const std::string activation : {"none", "relu6"}) {
      OpCall call{"ConvBatchNormGrad",
                  ConvolutionAttributes(c),
                  {table.Uniform(c.x), table.Uniform(c.w), table.Uniform(y, 1, 4),
                   table.Uniform(channels, 0.5, 2), table.Uniform(channels, 2, 3),
                   table.Uniform(channels, 0.5, 2), table.Uniform(y)},
                  {F32(c.x), F32(c.w), F32(channels), F32(channels)}};
      call.attributes.Set("training", true);
      call.attributes.Set("activation", activation);
      if (activation != "none") call.inputs.push_back(table.Uniform(channels));
      table.Add(absl::StrCat(c.name, "_", activation), call, 5e-5);
    }
  }
}

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

void AddGlobalPools(CaseTable& table) {
  for (const Shape& x : {Shape({2, 5, 3, 4}), Shape({3, 32, 7, 7}), Shape({1, 16, 20, 18})}) {
    const Shape y({x.dim(0), x.dim(1), 1, 1});
    const TensorSpec index{DataType::kInt32, y};
    table.Add(NameOf(x), {"GlobalAveragePool", {}, {table.Uniform(x)}, {F32(y)}}, 1e-6);
    table.Add(NameOf(x), {"GlobalAveragePoolGrad", {}, {table.Uniform(y)}, {F32(x)}}, kExact);
    const OpCall max{"GlobalMaxPool", {}, {table.Uniform(x)}, {F32(y), index}};
    table.Add(NameOf(x), max, 0);
    const Tensor winners = CaseTable::Reference(max)[1];
    table.Add(NameOf(x), {"GlobalMaxPoolGrad", {}, {winners, table.Uniform(y)}, {F32(x)}}, kExact);
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
      for (const std::string activation : {"relu", "relu6"}) {
        OpCall fused = call;
        fused.attributes.Set("activation", activation);
        table.Add(absl::StrCat(name, "_", activation), fused, 2e-5);
        fused.inputs.push_back(table.Uniform(shape, -3, 3));
        table.Add(absl::StrCat(name, "_residual_", activation), fused, 2e-5);
        const auto y = CaseTable::Reference(call);
        fused = {"BatchNormGrad",
                 fused.attributes,
                 {call.inputs[0], call.inputs[1], y[1], y[3], table.Uniform(shape), call.inputs[2]},
                 {F32(shape), F32(c), F32(c)}};
        table.Add(absl::StrCat(name, "_", activation), fused, 2e-5);
      }
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

void AddTransposedConvolutions(CaseTable& table) {
  // x and y change places; w is [in, out / group, height, width].
  const std::vector<ConvolutionCase> cases = {
      {"plain", {2, 3, 9, 8}, {5, 3, 3, 2}, {2, 1}, {1, 0, 0, 1}},
      {"blocked", {2, 16, 8, 8}, {32, 16, 4, 4}, {2, 2}, {1, 1, 1, 1}},
      {"grouped", {2, 6, 6, 6}, {4, 3, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 2},
      {"dilated", {1, 16, 9, 9}, {16, 16, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}},
  };
  for (const ConvolutionCase& c : cases) {
    OpCall call{"ConvTranspose",
                ConvolutionAttributes(c),
                {table.Uniform(OutputShape(c)), table.Uniform(c.w)},
                {F32(c.x)}};
    table.Add(c.name, call, kConvolution);
    call.inputs.push_back(table.Uniform({c.x.dim(1)}));
    table.Add(absl::StrCat(c.name, "_bias"), call, kConvolution);
  }
}

void AddOtherNorms(CaseTable& table) {
  const std::pair<Shape, Shape> rows[] = {
      {{5, 7}, {7}}, {{40, 64}, {64}}, {{3, 4, 33}, {33}}, {{2, 3, 4, 5}, {3, 4, 5}}};
  for (const auto& [x, row] : rows) {
    Shape moments;
    for (int d = 0; d < x.rank() - row.rank(); ++d) moments.AddDim(x.dim(d));
    const Attributes axis{{"axis", int64_t{x.rank() - row.rank()}}, {"epsilon", 1e-3}};
    const OpCall call{"LayerNorm",
                      axis,
                      {table.Uniform(x, 1, 4), table.Uniform(row, 0.5, 2), table.Uniform(row)},
                      {F32(x), F32(moments), F32(moments)}};
    table.Add(NameOf(x), call, 1e-5);
    const auto y = CaseTable::Reference(call);
    table.Add(NameOf(x),
              {"LayerNormGrad",
               axis,
               {call.inputs[0], call.inputs[1], y[1], y[2], table.Uniform(x)},
               {F32(x), F32(row), F32(row)}},
              2e-5);
  }
  for (const Shape& x : {Shape({2, 5, 3, 4}), Shape({2, 32, 9, 9})}) {
    for (double beta : {0.5, 0.75, 1.0, 0.6}) {
      const Attributes attributes{
          {"depth_radius", int64_t{2}}, {"bias", 1.5}, {"alpha", 0.3}, {"beta", beta}};
      const OpCall call{"LocalResponseNorm", attributes, {table.Uniform(x, -2, 2)}, {F32(x)}};
      const std::string name = absl::StrCat(NameOf(x), "_", beta);
      table.Add(name, call, 2e-6);
      const Tensor y = CaseTable::Reference(call)[0];
      table.Add(
          name,
          {"LocalResponseNormGrad", attributes, {call.inputs[0], y, table.Uniform(x)}, {F32(x)}},
          2e-6);
    }
  }
}

}  // namespace shoal::conformance
