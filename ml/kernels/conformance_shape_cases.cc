// Reductions, and ops that move elements.

#include "absl/strings/str_cat.h"

#include "ml/kernels/conformance_case_table.h"

namespace shoal::conformance {

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
    for (const char* op : {"ReduceMax", "ReduceMin"}) {
      table.Add(name, {op, attributes, {table.Uniform(c.from)}, {F32(c.to)}}, 0);
    }
  }
  for (const Shape& shape : {Shape({1000}), Shape({33, 17})}) {
    table.Add(NameOf(shape), {"L2Loss", {}, {table.Uniform(shape)}, {F32({})}}, kSum);
  }
}

void AddMoves(CaseTable& table) {
  const Tensor x = table.Uniform({2, 6, 5});
  table.Add("flatten", {"Reshape", {}, {x}, {F32({2, 30})}}, 0);
  table.Add("reversed", {"Transpose", {{"perm", Ints{2, 1, 0}}}, {x}, {F32({5, 6, 2})}}, 0);
  table.Add("matrix",
            {"Transpose", {{"perm", Ints{1, 0}}}, {table.Uniform({33, 50})}, {F32({50, 33})}}, 0);
  const struct {
    Shape from;
    Ints perm;
  } turns[] = {{{2, 3, 40, 5}, {0, 2, 3, 1}}, {{2, 3, 40, 5}, {0, 3, 1, 2}},
               {{7, 20, 33}, {1, 0, 2}},      {{7, 20, 33}, {2, 1, 0}},
               {{7, 20, 33}, {0, 2, 1}},      {{3, 4, 5, 6, 7}, {4, 2, 0, 3, 1}},
               {{1, 20, 1}, {2, 1, 0}},       {{12}, {0}},
               {{130, 257}, {1, 0}},          {{2, 2, 2, 2, 2, 2, 2, 2}, {7, 0, 6, 1, 5, 2, 4, 3}}};
  for (const auto& [from, perm] : turns) {
    Shape to;
    std::string name = NameOf(from);
    for (int64_t axis : perm) {
      to.AddDim(from.dim(static_cast<int>(axis)));
      absl::StrAppend(&name, "_", axis);
    }
    table.Add(name, {"Transpose", {{"perm", perm}}, {table.Uniform(from)}, {F32(to)}}, 0);
  }
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

}  // namespace shoal::conformance
