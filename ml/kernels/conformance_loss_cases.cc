// Softmax and losses.

#include <string>
#include <utility>

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {

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
    table.Add(
        absl::StrCat(name, "_top3"),
        {"CorrectCount", {{"k", int64_t{3}}}, {logits, table.Labels(rows, classes)}, {F32({})}}, 0);
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

}  // namespace shoal::conformance
