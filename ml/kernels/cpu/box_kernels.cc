// Slice and Pad: they copy a box out of a tensor, or into a larger one.

#include <algorithm>
#include <cstring>
#include <vector>

#include "ml/device/slice_ranges.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

// A box inside a larger tensor. Two axes are merged if the box has the whole inner one. All sizes
// are in elements.
struct Box {
  struct Axis {
    int64_t whole, begin, size;
  };
  std::vector<Axis> axes;  // outermost first; at least one

  int64_t BoxRows() const { return Rows(&Axis::size); }
  int64_t WholeRows() const { return Rows(&Axis::whole); }
  const Axis& inner() const { return axes.back(); }

  // Returns the place of row `row` of the box in the whole.
  int64_t WholeOffset(int64_t row) const {
    int64_t offset = 0, stride = inner().whole;
    for (size_t d = axes.size() - 1; d-- > 0;) {
      offset += (axes[d].begin + row % axes[d].size) * stride;
      row /= axes[d].size;
      stride *= axes[d].whole;
    }
    return offset + inner().begin;
  }

  // The row of the box that is in row `row` of the whole; -1 if none is.
  int64_t BoxRow(int64_t row) const {
    int64_t box_row = 0, stride = 1;
    for (size_t d = axes.size() - 1; d-- > 0;) {
      const int64_t position = row % axes[d].whole - axes[d].begin;
      if (position < 0 || position >= axes[d].size) return -1;
      box_row += position * stride;
      row /= axes[d].whole;
      stride *= axes[d].size;
    }
    return box_row;
  }

 private:
  int64_t Rows(int64_t Axis::*size) const {
    int64_t rows = 1;
    for (size_t d = 0; d + 1 < axes.size(); ++d) rows *= axes[d].*size;
    return rows;
  }
};

Box MakeBox(const Shape& whole, const std::vector<int64_t>& begins, const Shape& box) {
  std::vector<Box::Axis> merged = {{1, 0, 1}};  // innermost first
  for (int d = whole.rank() - 1; d >= 0; --d) {
    const Box::Axis axis{whole.dim(d), begins[d], box.dim(d)};
    Box::Axis& last = merged.back();
    if (last.begin == 0 && last.size == last.whole) {
      last = {axis.whole * last.whole, axis.begin * last.whole, axis.size * last.whole};
    } else {
      merged.push_back(axis);
    }
  }
  return {{merged.rbegin(), merged.rend()}};
}

// The number of rows for which a second thread is worthwhile.
int ThreadsFor(int threads, int64_t bytes) { return bytes > 65536 ? threads : 1; }

class SliceKernel : public Kernel {
 public:
  SliceKernel(const Box& box, int64_t element_bytes, int threads)
      : box_(box), bytes_(element_bytes), rows_(box.BoxRows()) {
    threads_ = ThreadsFor(threads, rows_ * box_.inner().size * bytes_);
  }

  void Run(const KernelContext& context) override {
    const char* x = static_cast<const char*>(context.inputs[0]);
    char* y = static_cast<char*>(context.outputs[0]);
    const int64_t row_bytes = box_.inner().size * bytes_;
    if (row_bytes == 0) return;
    ParallelFor(threads_, rows_, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) {
        std::memcpy(y + row * row_bytes, x + box_.WholeOffset(row) * bytes_,
                    static_cast<size_t>(row_bytes));
      }
    });
  }

 private:
  const Box box_;
  const int64_t bytes_;
  const int64_t rows_;
  int threads_;
};

template <typename T>
class PadKernel : public Kernel {
 public:
  PadKernel(const Box& box, T value, int threads)
      : box_(box), value_(value), rows_(box.WholeRows()) {
    threads_ = ThreadsFor(threads, rows_ * box_.inner().whole * static_cast<int64_t>(sizeof(T)));
  }

  void Run(const KernelContext& context) override {
    const T* x = static_cast<const T*>(context.inputs[0]);
    T* y = static_cast<T*>(context.outputs[0]);
    const auto [whole, front, size] = box_.inner();
    const int64_t behind = whole - front - size;
    ParallelFor(threads_, rows_,
                [&, front = front, size = size, whole = whole](int64_t begin, int64_t end) {
                  for (int64_t row = begin; row < end; ++row) {
                    T* to = y + row * whole;
                    const int64_t from = box_.BoxRow(row);
                    if (from < 0) {
                      std::fill_n(to, whole, value_);
                      continue;
                    }
                    std::fill_n(to, front, value_);
                    std::copy_n(x + from * size, size, to + front);
                    std::fill_n(to + front + size, behind, value_);
                  }
                });
  }

 private:
  const Box box_;
  const T value_;
  const int64_t rows_;
  int threads_;
};

template <typename T>
KernelOr MakePad(const CpuRequest& request, const Box& box, double value) {
  return std::make_unique<PadKernel<T>>(box, static_cast<T>(value), request.threads());
}

}  // namespace

KernelOr CreateSlice(const CpuRequest& request) {
  if (request.num_inputs() != 1 || request.num_outputs() != 1 ||
      request.input(0).dtype != request.output(0).dtype) {
    return request.Invalid("want one input and output of one dtype");
  }
  const Shape &x = request.input(0).shape, &y = request.output(0).shape;
  const absl::StatusOr<std::vector<AxisRange>> ranges = SliceRanges(request.attributes(), x);
  if (!ranges.ok()) return request.Invalid(ranges.status().message());
  std::vector<int64_t> begins;
  for (int d = 0; d < x.rank(); ++d) {
    const AxisRange& range = (*ranges)[d];
    if (y.rank() != x.rank() || y.dim(d) != range.end - range.begin) {
      return request.Invalid("the output does not fit starts and ends");
    }
    begins.push_back(range.begin);
  }
  return std::make_unique<SliceKernel>(MakeBox(x, begins, y),
                                       static_cast<int64_t>(SizeOf(request.output(0).dtype)),
                                       request.threads());
}

KernelOr CreatePad(const CpuRequest& request) {
  if (request.num_inputs() != 1 || request.num_outputs() != 1 ||
      request.input(0).dtype != request.output(0).dtype) {
    return request.Invalid("want one input and output of one dtype");
  }
  const Shape &x = request.input(0).shape, &y = request.output(0).shape;
  const std::vector<int64_t> pads = request.attributes().GetInts("pads", {});
  bool fits = y.rank() == x.rank() && static_cast<int>(pads.size()) == 2 * x.rank();
  for (int d = 0; fits && d < x.rank(); ++d) {
    fits = pads[d] >= 0 && pads[d + x.rank()] >= 0 &&
           pads[d] + x.dim(d) + pads[d + x.rank()] == y.dim(d);
  }
  if (!fits) return request.Invalid("the output does not fit pads");
  const Box box = MakeBox(y, pads, x);
  const double value = request.attributes().GetDouble("value", 0);
  switch (request.output(0).dtype) {
    case DataType::kFloat32:
      return MakePad<float>(request, box, value);
    case DataType::kFloat64:
      return MakePad<double>(request, box, value);
    case DataType::kInt32:
      return MakePad<int32_t>(request, box, value);
    case DataType::kInt64:
      return MakePad<int64_t>(request, box, value);
    case DataType::kUint8:
      return MakePad<uint8_t>(request, box, value);
    case DataType::kBool:
      return MakePad<bool>(request, box, value);
    case DataType::kBfloat16:
      break;
  }
  return request.NoKernel();
}

}  // namespace shoal::cpu
