// Cases with few long rows: reductions that a GPU computes in parts of 4096 or more terms, and
// lookups with so many indices that an algorithm of quadratic time would not end.

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {
namespace {

void AddLongSums(CaseTable& table) {
  const Shape from({3, 20000}), to({3});
  const Attributes attributes{{"axes", Ints{1}}, {"keepdims", false}};
  for (const char* op : {"ReduceSum", "ReduceMean"}) {
    table.Add("long", {op, attributes, {table.Uniform(from, 0, 1)}, {F32(to)}}, kSum);
  }
  table.Add("long", {"ReduceMax", attributes, {table.Uniform(from)}, {F32(to)}}, 0);
  table.Add("long", {"L2Loss", {}, {table.Uniform({20000})}, {F32({})}}, kSum);
  table.Add("long",
            {"MeanSquaredError",
             {},
             {table.Uniform({200, 1}), table.Uniform({200, 600}, 1, 3)},
             {F32({})}},
            kSum);
  const Shape images({1, 2, 100, 100});
  table.Add("long", {"GlobalAveragePool", {}, {table.Uniform(images)}, {F32({1, 2, 1, 1})}}, 1e-6);
}

void AddLongSoftmaxes(CaseTable& table) {
  const Shape shape({2, 10000});
  const Tensor logits = table.Uniform(shape, -8, 8);
  const OpCall softmax{"Softmax", {}, {logits}, {F32(shape)}};
  table.Add("long", softmax, 2e-6);
  table.Add(
      "long",
      {"SoftmaxGrad", {}, {CaseTable::Reference(softmax)[0], table.Uniform(shape)}, {F32(shape)}},
      5e-6);
  table.Add(
      "long",
      {"SparseSoftmaxCrossEntropy", {}, {logits, table.Labels(2, 10000)}, {F32({2}), F32(shape)}},
      2e-6);
}

void AddLongNorms(CaseTable& table) {
  const Shape images({8, 4, 40, 40}), c({4});
  const Attributes training{{"training", true}, {"epsilon", 1e-3}};
  const OpCall batch{"BatchNorm",
                     training,
                     {table.Uniform(images, 1, 4), table.Uniform(c, 0.5, 2), table.Uniform(c),
                      table.Uniform(c, 2, 3), table.Uniform(c, 0.5, 2)},
                     {F32(images), F32(c), F32(c), F32(c)}};
  table.Add("long", batch, 2e-5);
  auto y = CaseTable::Reference(batch);
  table.Add("long",
            {"BatchNormGrad",
             training,
             {batch.inputs[0], batch.inputs[1], y[1], y[3], table.Uniform(images)},
             {F32(images), F32(c), F32(c)}},
            2e-5);
  const Shape rows({2, 10000}), row({10000}), moments({2});
  const Attributes axis{{"axis", int64_t{1}}, {"epsilon", 1e-3}};
  const OpCall layer{"LayerNorm",
                     axis,
                     {table.Uniform(rows, 1, 4), table.Uniform(row, 0.5, 2), table.Uniform(row)},
                     {F32(rows), F32(moments), F32(moments)}};
  table.Add("long", layer, 1e-5);
  y = CaseTable::Reference(layer);
  table.Add("long",
            {"LayerNormGrad",
             axis,
             {layer.inputs[0], layer.inputs[1], y[1], y[2], table.Uniform(rows)},
             {F32(rows), F32(row), F32(row)}},
            2e-5);
}

// Adds lookups with many indices into tables of few and of many rows. Some indices are out of
// range, and most are equal.
void AddLongLookups(CaseTable& table) {
  const int64_t n = 300000;
  for (int64_t rows : {1, 40, 200000}) {
    Tensor indices = table.Labels(n, rows);
    auto values = indices.mutable_span<int32_t>();
    for (size_t i = 0; i < values.size(); ++i) {
      if (i % 3 != 0) values[i] = static_cast<int32_t>(rows / 2);
      if (i % 7 == 0) values[i] = static_cast<int32_t>(i % 2 == 0 ? rows : -1);
    }
    const Shape params({rows, 2}), y({n, 2});
    table.Add(absl::StrCat("long_", rows),
              {"GatherGrad", {}, {indices, table.Uniform(y)}, {F32(params)}}, 1e-4);
  }
}

}  // namespace

void AddLongReductions(CaseTable& table) {
  AddLongSums(table);
  AddLongSoftmaxes(table);
  AddLongNorms(table);
  AddLongLookups(table);
}

}  // namespace shoal::conformance
