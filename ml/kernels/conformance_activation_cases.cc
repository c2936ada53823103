// Functions of elements with attributes, and powers.

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {

void AddActivations(CaseTable& table) {
  const struct {
    const char* op;
    Attributes attributes;
    bool slope_from_output;
    double tolerance;
  } functions[] = {
      {"Clip", {{"min", 0.0}, {"max", 6.0}}, true, kExact},
      {"Clip", {{"min", -2.5}}, true, kExact},
      {"Clip", {{"max", 1.5}}, true, kExact},
      {"LeakyRelu", {}, true, kExact},
      {"LeakyRelu", {{"alpha", 0.2}}, true, kExact},
      {"Elu", {}, true, kTranscendental},
      {"Elu", {{"alpha", 1.7}}, true, kTranscendental},
      {"Gelu", {}, false, 3e-6},
      {"Gelu", {{"approximate", std::string("tanh")}}, false, 3e-6},
      {"Silu", {}, false, kTranscendental},
  };
  for (const Shape& shape : {Shape({}), Shape({17}), Shape({64, 533}), Shape({2, 32, 5, 3})}) {
    int number = 0;
    for (const auto& f : functions) {
      const std::string name = absl::StrCat(++number, "_", NameOf(shape));
      const OpCall call{f.op, f.attributes, {table.Uniform(shape, -8, 8)}, {F32(shape)}};
      table.Add(name, call, f.tolerance);
      const Tensor at = f.slope_from_output ? CaseTable::Reference(call)[0] : call.inputs[0];
      table.Add(
          name,
          {absl::StrCat(f.op, "Grad"), f.attributes, {at, table.Uniform(shape)}, {F32(shape)}},
          f.tolerance < kTranscendental ? kTranscendental : f.tolerance);
    }
    table.Add(NameOf(shape), {"Erf", {}, {table.Uniform(shape, -5, 5)}, {F32(shape)}},
              kTranscendental);
    table.Add(NameOf(shape), {"Softplus", {}, {table.Uniform(shape, -30, 10)}, {F32(shape)}},
              kTranscendental);
  }
}

void AddPowers(CaseTable& table) {
  for (const Shape& b : {Shape({64, 33}), Shape({33}), Shape({64, 1}), Shape({})}) {
    const Shape shape({64, 33});
    const std::string name = absl::StrCat(NameOf(shape), "_", NameOf(b));
    table.Add(name,
              {"Pow", {}, {table.Uniform(shape, 0, 3), table.Uniform(b, -1, 3)}, {F32(shape)}},
              kTranscendental);
    table.Add(absl::StrCat(name, "_turned"),
              {"Pow", {}, {table.Uniform(b, 0.3, 3), table.Uniform(shape, -3, 3)}, {F32(shape)}},
              kTranscendental);
  }
  const Shape images({2, 16, 3, 4});
  for (double exponent : {-1.0, -0.5, 0.0, 0.5, 1.0, 2.0, 3.0, 5.0}) {
    Tensor b(F32({}));
    b.mutable_span<float>()[0] = static_cast<float>(exponent);
    table.Add(absl::StrCat("constant_", exponent),
              {"Pow", {}, {table.Uniform(images, 0.2, 2), b}, {F32(images)}}, kTranscendental);
  }
}

}  // namespace shoal::conformance
