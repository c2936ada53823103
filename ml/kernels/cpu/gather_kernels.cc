// Gather, which looks up rows of a table, and its gradient, which adds rows to a table.

#include <algorithm>
#include <cstring>
#include <limits>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

struct Rows {
  int64_t table, count, size;  // rows of the table, rows to move, elements of a row
};

template <typename Index>
class GatherKernel : public Kernel {
 public:
  GatherKernel(const CpuRequest& request, Rows rows)
      : threads_(request.threads()),
        rows_(rows),
        is_float_(request.output(0).dtype == DataType::kFloat32),
        row_bytes_(rows.size * static_cast<int64_t>(SizeOf(request.output(0).dtype))) {}

  void Run(const KernelContext& context) override {
    const char* table = static_cast<const char*>(context.inputs[0]);
    const Index* indices = static_cast<const Index*>(context.inputs[1]);
    char* y = static_cast<char*>(context.outputs[0]);
    if (row_bytes_ == 0) return;
    ParallelFor(rows_.count * row_bytes_ > 65536 ? threads_ : 1, rows_.count,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    MoveRow(table, indices[i], y + i * row_bytes_);
                  }
                });
  }

 private:
  // A row that does not exist is NaN, so that the batch is seen to be bad.
  void MoveRow(const char* table, int64_t row, char* to) const {
    if (row >= 0 && row < rows_.table) {
      std::memcpy(to, table + row * row_bytes_, static_cast<size_t>(row_bytes_));
    } else if (is_float_) {
      std::fill_n(reinterpret_cast<float*>(to), rows_.size,
                  std::numeric_limits<float>::quiet_NaN());
    } else {
      std::memset(to, 0, static_cast<size_t>(row_bytes_));
    }
  }

  const int threads_;
  const Rows rows_;
  const bool is_float_;
  const int64_t row_bytes_;
};

// Every thread has its own rows of the table and adds to them in the order of the indices, so the
// result has the same bytes for any number of threads.
template <typename Index>
class GatherGradKernel : public Kernel {
 public:
  GatherGradKernel(const CpuRequest& request, Rows rows)
      : simd_(request.simd), threads_(request.threads()), rows_(rows) {}

  void Run(const KernelContext& context) override {
    const Index* indices = static_cast<const Index*>(context.inputs[0]);
    const float* dy = FloatInput(context, 1);
    float* table = FloatOutput(context, 0);
    ParallelFor(threads_, rows_.table, [&](int64_t begin, int64_t end) {
      std::fill(table + begin * rows_.size, table + end * rows_.size, 0.0f);
      for (int64_t i = 0; i < rows_.count; ++i) {
        const auto row = static_cast<int64_t>(indices[i]);
        if (row < begin || row >= end) continue;
        simd_.accumulate(dy + i * rows_.size, table + row * rows_.size, rows_.size);
      }
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const Rows rows_;
};

template <template <typename> class KernelFor>
KernelOr MakeFor(const CpuRequest& request, const TensorSpec& indices, const Shape& table,
                 const TensorSpec& moved) {
  Rows rows{table.rank() > 0 ? table.dim(0) : 0, indices.shape.num_elements(), 1};
  for (int d = 1; d < table.rank(); ++d) rows.size *= table.dim(d);
  if (table.rank() == 0 || moved.shape.num_elements() != rows.count * rows.size) {
    return request.Invalid("the shapes do not fit");
  }
  if (indices.dtype == DataType::kInt32) {
    return std::make_unique<KernelFor<int32_t>>(request, rows);
  }
  if (indices.dtype == DataType::kInt64) {
    return std::make_unique<KernelFor<int64_t>>(request, rows);
  }
  return request.Invalid("the indices must be int32 or int64");
}

}  // namespace

KernelOr CreateGather(const CpuRequest& request) {
  if (request.num_inputs() != 2 || request.num_outputs() != 1 ||
      request.input(0).dtype != request.output(0).dtype) {
    return request.Invalid("want a table and indices -> rows of the table's dtype");
  }
  return MakeFor<GatherKernel>(request, request.input(1), request.input(0).shape,
                               request.output(0));
}

KernelOr CreateGatherGrad(const CpuRequest& request) {
  if (request.num_inputs() < 2 || request.num_outputs() != 1 ||
      request.input(1).dtype != DataType::kFloat32 ||
      request.output(0).dtype != DataType::kFloat32) {
    return request.NoKernel();
  }
  return MakeFor<GatherGradKernel>(request, request.input(0), request.output(0).shape,
                                   request.input(1));
}

}  // namespace shoal::cpu
