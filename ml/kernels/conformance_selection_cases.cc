// Comparing, choosing and converting elements.

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"
#include "ml/kernels/reference/reference_kernels.h"

namespace shoal::conformance {
namespace {

constexpr DataType kTypes[] = {DataType::kFloat32, DataType::kInt32, DataType::kInt64,
                               DataType::kUint8, DataType::kBool};

// Small whole numbers, of which some are equal.
Tensor SmallNumbers(CaseTable& table, const Shape& shape, DataType dtype) {
  const TensorSpec spec{dtype, shape};
  return CaseTable::Reference({"Cast", {}, {table.Labels(shape.num_elements(), 4)}, {spec}})[0];
}

}  // namespace

void AddSelections(CaseTable& table) {
  const struct {
    Shape condition, x, y, z;
  } shapes[] = {{{40}, {40}, {40}, {40}},         {{7, 33}, {7, 33}, {}, {7, 33}},
                {{7, 33}, {}, {7, 33}, {7, 33}},  {{7, 33}, {}, {}, {7, 33}},
                {{7, 1}, {7, 33}, {33}, {7, 33}}, {{33}, {7, 1}, {7, 33}, {7, 33}},
                {{}, {3, 5}, {3, 5}, {3, 5}},     {{2, 1, 3}, {5, 1}, {3}, {2, 5, 3}}};
  for (DataType dtype : kTypes) {
    for (const auto& [condition, x, y, z] : shapes) {
      const std::string name =
          absl::StrCat(DataTypeName(dtype), "_", NameOf(condition), "_", NameOf(x), "_", NameOf(y));
      const Tensor a = SmallNumbers(table, x, dtype), b = SmallNumbers(table, y, dtype);
      table.Add(name, {"Where", {}, {table.Booleans(condition), a, b}, {{dtype, z}}}, 0);
    }
    for (const auto& [a, b] : {std::pair<Shape, Shape>{{130, 70}, {130, 70}},
                               {{30, 7}, {7}},
                               {{30, 1}, {30, 7}},
                               {{30, 7}, {}},
                               {{}, {30, 7}}}) {
      const Tensor x = SmallNumbers(table, a, dtype), y = SmallNumbers(table, b, dtype);
      const Shape& c = a.num_elements() > b.num_elements() ? a : b;
      for (const char* op : {"Equal", "Less", "Greater"}) {
        table.Add(absl::StrCat(DataTypeName(dtype), "_", NameOf(a), "_", NameOf(b)),
                  {op, {}, {x, y}, {{DataType::kBool, c}}}, 0);
      }
    }
    for (DataType to : kTypes) {
      table.Add(absl::StrCat(DataTypeName(dtype), "_", DataTypeName(to)),
                {"Cast", {}, {SmallNumbers(table, {77, 5}, dtype)}, {{to, {77, 5}}}}, 0);
    }
  }
  table.Add("towards_zero",
            {"Cast", {}, {table.Uniform({300}, -50, 50)}, {{DataType::kInt32, {300}}}}, 0);
}

}  // namespace shoal::conformance
