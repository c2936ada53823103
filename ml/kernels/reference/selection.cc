// Ops that compare, select, slice, look up and drop elements.

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/random.h"
#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

template <bool (*F)(double, double)>
void Compare(const Call& call) {
  const Shape& shape = call.OutShape(0);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const auto operand = [&](size_t k) {
      return LoadElement(call.inputs[k].dtype, call.context.inputs[k],
                         BroadcastIndex(call.InShape(k), shape, i));
    };
    call.Out<bool>(0)[i] = F(operand(0), operand(1));
  }
}

bool Equal(double a, double b) { return a == b; }
bool Less(double a, double b) { return a < b; }
bool Greater(double a, double b) { return a > b; }

void Where(const Call& call) {
  const Shape& shape = call.OutShape(0);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const bool holds = call.In<bool>(0)[BroadcastIndex(call.InShape(0), shape, i)];
    const size_t chosen = holds ? 1 : 2;
    CopyElement(SizeOf(call.outputs[0].dtype), call.context.inputs[chosen],
                BroadcastIndex(call.InShape(chosen), shape, i), call.context.outputs[0], i);
  }
}

std::vector<int64_t> Positions(const Shape& shape, int64_t index) {
  std::vector<int64_t> positions(static_cast<size_t>(shape.rank()));
  for (int d = shape.rank() - 1; d >= 0; --d) {
    positions[static_cast<size_t>(d)] = index % shape.dim(d);
    index /= shape.dim(d);
  }
  return positions;
}

int64_t IndexOf(const Shape& shape, const std::vector<int64_t>& positions) {
  int64_t index = 0;
  for (int d = 0; d < shape.rank(); ++d) {
    index = index * shape.dim(d) + positions[static_cast<size_t>(d)];
  }
  return index;
}

void Slice(const Call& call) {
  const Shape &x = call.InShape(0), &y = call.OutShape(0);
  const auto starts = call.attributes.GetInts("starts", {});
  auto axes = call.attributes.GetInts("axes", {});
  for (size_t i = axes.size(); i < starts.size(); ++i) axes.push_back(static_cast<int64_t>(i));
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    std::vector<int64_t> positions = Positions(y, i);
    for (size_t k = 0; k < starts.size(); ++k) {
      const int64_t axis = axes[k] < 0 ? axes[k] + x.rank() : axes[k];
      const int64_t size = x.dim(static_cast<int>(axis));
      const int64_t start = starts[k] < 0 ? starts[k] + size : starts[k];
      positions[static_cast<size_t>(axis)] += std::clamp<int64_t>(start, 0, size);
    }
    CopyElement(SizeOf(call.outputs[0].dtype), call.context.inputs[0], IndexOf(x, positions),
                call.context.outputs[0], i);
  }
}

void Pad(const Call& call) {
  const Shape &x = call.InShape(0), &y = call.OutShape(0);
  const auto pads = call.attributes.GetInts("pads", {});
  const double value = call.attributes.GetDouble("value", 0);
  for (int64_t i = 0; i < y.num_elements(); ++i) {
    std::vector<int64_t> positions = Positions(y, i);
    bool is_inside = true;
    for (int d = 0; d < x.rank(); ++d) {
      int64_t& position = positions[static_cast<size_t>(d)];
      position -= pads[static_cast<size_t>(d)];
      is_inside &= position >= 0 && position < x.dim(d);
    }
    if (is_inside) {
      CopyElement(SizeOf(call.outputs[0].dtype), call.context.inputs[0], IndexOf(x, positions),
                  call.context.outputs[0], i);
    } else {
      StoreElement(call.outputs[0].dtype, value, call.context.outputs[0], i);
    }
  }
}

int64_t RowSize(const Shape& table) {
  int64_t size = 1;
  for (int d = 1; d < table.rank(); ++d) size *= table.dim(d);
  return size;
}

// NaN, or 0 in whole numbers, where there is no such row.
void Gather(const Call& call) {
  const int64_t size = RowSize(call.InShape(0));
  const DataType dtype = call.outputs[0].dtype;
  for (int64_t i = 0; i < call.OutShape(0).num_elements(); ++i) {
    const auto row =
        static_cast<int64_t>(LoadElement(call.inputs[1].dtype, call.context.inputs[1], i / size));
    if (row >= 0 && row < call.InShape(0).dim(0)) {
      CopyElement(SizeOf(dtype), call.context.inputs[0], row * size + i % size,
                  call.context.outputs[0], i);
    } else {
      StoreElement(dtype, IsFloating(dtype) ? std::nan("") : 0, call.context.outputs[0], i);
    }
  }
}

// indices, dy -> the gradient of the table
template <typename T>
void GatherGrad(const Call& call) {
  const Shape& table = call.OutShape(0);
  const int64_t size = RowSize(table);
  std::vector<double> sums(static_cast<size_t>(table.num_elements()));
  for (int64_t i = 0; i < call.InShape(1).num_elements(); ++i) {
    const auto row =
        static_cast<int64_t>(LoadElement(call.inputs[0].dtype, call.context.inputs[0], i / size));
    if (row < 0 || row >= table.dim(0)) continue;
    sums[static_cast<size_t>(row * size + i % size)] += call.In<T>(1)[i];
  }
  for (size_t i = 0; i < sums.size(); ++i) call.Out<T>(0)[i] = static_cast<T>(sums[i]);
}

// Element e of an example is in block e / 64 of it; words of 16 counters decide about a block.
template <typename T>
void Dropout(const Call& call) {
  const double rate = call.attributes.GetDouble("rate", 0.5);
  const auto op_id = static_cast<uint64_t>(call.attributes.GetInt("op_id", 0));
  const RandomKey& key = call.context.key;
  const uint64_t op_key = DeriveKey(DeriveKey(key.seed, key.epoch), op_id);
  const Shape& shape = call.OutShape(0);
  const int64_t examples = shape.rank() == 0 ? 1 : shape.dim(0);
  const int64_t size = examples == 0 ? 0 : shape.num_elements() / examples;
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    const auto example = key.first_example + static_cast<uint64_t>(i / size);
    const auto block = static_cast<uint64_t>(i % size / 64),
               j = static_cast<uint64_t>(i % size % 64);
    const uint32_t word = Philox(op_key, example, block * 16 + j % 16)[j / 16];
    const bool is_kept = word >= static_cast<uint32_t>(rate * 4294967296.0);
    call.Out<T>(0)[i] = is_kept ? static_cast<T>(call.In<T>(0)[i] / (1 - rate)) : T{0};
  }
}

constexpr Op kOps[] = {
    {"Equal", &Compare<Equal>, &Compare<Equal>},
    {"Less", &Compare<Less>, &Compare<Less>},
    {"Greater", &Compare<Greater>, &Compare<Greater>},
    {"Where", &Where, &Where},
    {"Slice", &Slice, &Slice},
    {"Pad", &Pad, &Pad},
    {"Gather", &Gather, &Gather},
    {"GatherGrad", &GatherGrad<float>, &GatherGrad<double>},
    {"Dropout", &Dropout<float>, &Dropout<double>},
};

}  // namespace

absl::Span<const Op> SelectionOps() { return kOps; }

}  // namespace shoal::reference
