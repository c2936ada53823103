// Comparing, choosing, converting, cutting, looking up and dropping elements.

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

void AddBoxes(CaseTable& table) {
  const struct {
    const char* name;
    Shape x;
    Ints starts, ends, axes;
    Shape y;
  } slices[] = {
      {"rows", {9, 20}, {2}, {7}, {}, {5, 20}},
      {"columns", {9, 20}, {3}, {-1}, {1}, {9, 16}},
      {"box", {4, 9, 20}, {1, -20}, {100, 5}, {1, -1}, {4, 8, 5}},
      {"all", {4, 9, 300}, {0, 0, 7}, {4, 9, 300}, {}, {4, 9, 293}},
      {"number", {30}, {29}, {30}, {}, {1}},
      {"images", {3, 16, 9, 8}, {1, 2}, {9, 8}, {2, 3}, {3, 16, 8, 6}},
  };
  for (const auto& c : slices) {
    const Attributes attributes{{"starts", c.starts}, {"ends", c.ends}, {"axes", c.axes}};
    table.Add(c.name, {"Slice", attributes, {table.Uniform(c.x)}, {F32(c.y)}}, 0);
  }
  const struct {
    const char* name;
    Shape x;
    Ints pads;
    Shape y;
    double value;
  } pads[] = {
      {"front", {5, 20}, {0, 3, 0, 0}, {5, 23}, 0},
      {"rows", {5, 20}, {1, 0, 2, 0}, {8, 20}, -1.5},
      {"images", {3, 16, 7, 8}, {0, 0, 1, 2, 0, 0, 3, 1}, {3, 16, 11, 11}, 2},
      {"number", {1}, {2, 200}, {203}, 0.25},
  };
  for (const auto& c : pads) {
    table.Add(c.name,
              {"Pad", {{"pads", c.pads}, {"value", c.value}}, {table.Uniform(c.x)}, {F32(c.y)}}, 0);
  }
  table.Add("int",
            {"Pad",
             {{"pads", Ints{2, 1}}, {"value", 7.0}},
             {table.Labels(9, 100)},
             {{DataType::kInt32, {12}}}},
            0);
}

void AddLookups(CaseTable& table) {
  for (DataType index : {DataType::kInt32, DataType::kInt64}) {
    for (const auto& [rows, size] : {std::pair<int64_t, int64_t>{1, 1}, {7, 33}, {300, 16}}) {
      const TensorSpec spec{index, {5, 30}};
      const Tensor labels = CaseTable::Reference(
          {"Reshape", {}, {table.Labels(150, rows)}, {{DataType::kInt32, {5, 30}}}})[0];
      const Tensor indices = CaseTable::Reference({"Cast", {}, {labels}, {spec}})[0];
      const Shape params({rows, size}), y({5, 30, size});
      const std::string name = absl::StrCat(DataTypeName(index), "_", rows, "x", size);
      table.Add(name, {"Gather", {}, {table.Uniform(params), indices}, {F32(y)}}, 0);
      table.Add(name, {"GatherGrad", {}, {indices, table.Uniform(y)}, {F32(params)}}, kSum);
    }
  }
  for (const Shape& shape : {Shape({}), Shape({5}), Shape({3, 1000}), Shape({4, 16, 5, 3})}) {
    for (double rate : {0.0, 0.1, 0.5, 0.9}) {
      const Attributes attributes{{"rate", rate}, {"op_id", int64_t{-17}}};
      table.Add(absl::StrCat(NameOf(shape), "_", rate),
                {"Dropout", attributes, {table.Uniform(shape)}, {F32(shape)}}, 2e-7);
    }
  }
}

}  // namespace shoal::conformance
