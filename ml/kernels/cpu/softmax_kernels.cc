// Softmax over the last dimension, the losses that contain it, and CorrectCount.

#include <algorithm>
#include <cstdint>
#include <limits>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

struct Rows {
  int64_t rows;
  int64_t columns;
};

Rows RowsOf(const Shape& shape) {
  const int64_t columns = shape.rank() == 0 ? 1 : shape.dim(shape.rank() - 1);
  return {columns == 0 ? 0 : shape.num_elements() / columns, columns};
}

// The base of all kernels here: they process rows, which are independent of each other.
class RowKernel : public Kernel {
 public:
  RowKernel(const CpuRequest& request, Rows rows)
      : simd_(request.simd), rows_(rows), threads_(request.threads()) {}

  void Run(const KernelContext& context) override {
    const int threads = rows_.rows * rows_.columns > 16384 ? threads_ : 1;
    ParallelFor(threads, rows_.rows,
                [&](int64_t begin, int64_t end) { RunRows(context, begin, end); });
  }

 protected:
  virtual void RunRows(const KernelContext& context, int64_t begin, int64_t end) = 0;

  const SimdKernels& simd_;
  const Rows rows_;

 private:
  const int threads_;
};

class SoftmaxKernel : public RowKernel {
 public:
  SoftmaxKernel(const CpuRequest& request, Rows rows, bool is_log)
      : RowKernel(request, rows), is_log_(is_log) {}

 private:
  void RunRows(const KernelContext& context, int64_t begin, int64_t end) override {
    const int64_t c = rows_.columns;
    for (int64_t r = begin; r < end; ++r) {
      const float* x = FloatInput(context, 0) + r * c;
      float* y = FloatOutput(context, 0) + r * c;
      float log_sum = 0.0f;
      simd_.softmax(x, y, is_log_ ? &log_sum : nullptr, 1, c);
      if (is_log_) simd_.binary(BinaryOp::kSub, {x, false}, {&log_sum, true}, y, c, 0.0f);
    }
  }

  const bool is_log_;
};

// Softmax: dx = y * (dy - sum(y * dy)). Its logarithm: dx = dy - exp(y) * sum(dy).
class SoftmaxGradKernel : public RowKernel {
 public:
  SoftmaxGradKernel(const CpuRequest& request, Rows rows, bool is_log)
      : RowKernel(request, rows), is_log_(is_log) {}

 private:
  void RunRows(const KernelContext& context, int64_t begin, int64_t end) override {
    const int64_t c = rows_.columns;
    for (int64_t r = begin; r < end; ++r) {
      const float* y = FloatInput(context, 0) + r * c;
      const float* dy = FloatInput(context, 1) + r * c;
      float* dx = FloatOutput(context, 0) + r * c;
      if (is_log_) {
        const float sum = static_cast<float>(simd_.sum(dy, c));
        simd_.unary(UnaryOp::kExp, y, dx, c);
        simd_.scale(dx, -sum, 0.0f, dx, c);
        simd_.accumulate(dy, dx, c);
        continue;
      }
      float dot = 0.0f;
      simd_.matrix_vector(y, dy, &dot, 1, c);
      simd_.binary(BinaryOp::kSub, {dy, false}, {&dot, true}, dx, c, 0.0f);
      simd_.binary(BinaryOp::kMul, {y, false}, {dx, false}, dx, c, 0.0f);
    }
  }

  const bool is_log_;
};

// A loss of rows of logits. It writes loss[n] and probabilities[n, c]; outputs that are not needed
// go to the workspace.
class CrossEntropyRowKernel : public RowKernel {
 public:
  CrossEntropyRowKernel(const CpuRequest& request, Rows rows)
      : RowKernel(request, rows),
        loss_bytes_(request.needed(0) ? 0 : AlignedBytes(rows.rows * 4)),
        probability_bytes_(request.needed(1) ? 0 : AlignedBytes(rows.rows * rows.columns * 4)) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(loss_bytes_ + probability_bytes_);
  }

 protected:
  float* Loss(const KernelContext& context) const {
    return loss_bytes_ == 0 ? FloatOutput(context, 0) : static_cast<float*>(context.workspace);
  }
  float* Probabilities(const KernelContext& context) const {
    if (probability_bytes_ == 0) return FloatOutput(context, 1);
    return reinterpret_cast<float*>(static_cast<char*>(context.workspace) + loss_bytes_);
  }

 private:
  const int64_t loss_bytes_;
  const int64_t probability_bytes_;
};

// A label outside [0, c) makes the loss and the gradients NaN, so that the batch is refused as
// non-finite.
constexpr float kNotANumber = std::numeric_limits<float>::quiet_NaN();

// loss = log(sum(exp(x))) - sum over j of target_j * x_j, with target = (1 - s) [j = label] + s /
// c.
class SparseCrossEntropyKernel : public CrossEntropyRowKernel {
 public:
  SparseCrossEntropyKernel(const CpuRequest& request, Rows rows)
      : CrossEntropyRowKernel(request, rows),
        smoothing_(static_cast<float>(request.attributes().GetDouble("label_smoothing", 0.0))) {}

 private:
  void RunRows(const KernelContext& context, int64_t begin, int64_t end) override {
    const int64_t c = rows_.columns;
    const float* x = FloatInput(context, 0);
    const int32_t* labels = static_cast<const int32_t*>(context.inputs[1]);
    float* loss = Loss(context);
    float* probabilities = Probabilities(context);
    simd_.softmax(x + begin * c, probabilities + begin * c, loss + begin, end - begin, c);
    for (int64_t r = begin; r < end; ++r) {
      if (labels[r] < 0 || labels[r] >= c) {
        loss[r] = kNotANumber;
        continue;
      }
      float expected = x[r * c + labels[r]];
      if (smoothing_ != 0.0f) {
        const float mean = static_cast<float>(simd_.sum(x + r * c, c)) / static_cast<float>(c);
        expected = (1.0f - smoothing_) * expected + smoothing_ * mean;
      }
      loss[r] -= expected;
    }
  }

  const float smoothing_;
};

class SparseCrossEntropyGradKernel : public RowKernel {
 public:
  SparseCrossEntropyGradKernel(const CpuRequest& request, Rows rows)
      : RowKernel(request, rows),
        smoothing_(static_cast<float>(request.attributes().GetDouble("label_smoothing", 0.0))) {}

 private:
  void RunRows(const KernelContext& context, int64_t begin, int64_t end) override {
    const int64_t c = rows_.columns;
    const int32_t* labels = static_cast<const int32_t*>(context.inputs[1]);
    const float share = smoothing_ / static_cast<float>(c);
    for (int64_t r = begin; r < end; ++r) {
      const float* p = FloatInput(context, 0) + r * c;
      const float dloss = FloatInput(context, 2)[r];
      float* dx = FloatOutput(context, 0) + r * c;
      if (labels[r] < 0 || labels[r] >= c) {
        std::fill_n(dx, c, kNotANumber);
        continue;
      }
      simd_.scale(p, dloss, -share * dloss, dx, c);
      dx[labels[r]] = (p[labels[r]] - share - (1.0f - smoothing_)) * dloss;
    }
  }

  const float smoothing_;
};

// loss = sum over j of labels_j * (log(sum(exp(x))) - x_j).
class CrossEntropyKernel : public CrossEntropyRowKernel {
 public:
  using CrossEntropyRowKernel::CrossEntropyRowKernel;

 private:
  void RunRows(const KernelContext& context, int64_t begin, int64_t end) override {
    const int64_t c = rows_.columns;
    for (int64_t r = begin; r < end; ++r) {
      const float* x = FloatInput(context, 0) + r * c;
      const float* labels = FloatInput(context, 1) + r * c;
      float log_sum = 0.0f;
      simd_.softmax(x, Probabilities(context) + r * c, &log_sum, 1, c);
      float expected = 0.0f;
      simd_.matrix_vector(x, labels, &expected, 1, c);
      Loss(context)[r] = static_cast<float>(simd_.sum(labels, c)) * log_sum - expected;
    }
  }
};

class CrossEntropyGradKernel : public RowKernel {
 public:
  using RowKernel::RowKernel;

 private:
  void RunRows(const KernelContext& context, int64_t begin, int64_t end) override {
    const int64_t c = rows_.columns;
    for (int64_t r = begin; r < end; ++r) {
      const float* p = FloatInput(context, 0) + r * c;
      const float* labels = FloatInput(context, 1) + r * c;
      const float dloss = FloatInput(context, 2)[r];
      const float minus_dloss = -dloss;
      float* dx = FloatOutput(context, 0) + r * c;
      simd_.scale(p, dloss * static_cast<float>(simd_.sum(labels, c)), 0.0f, dx, c);
      simd_.multiply_accumulate({labels, false}, {&minus_dloss, true}, dx, c);
    }
  }
};

// Counts the rows whose label is among the k largest logits (of equal ones, the first count as
// larger).
class CorrectCountKernel : public Kernel {
 public:
  CorrectCountKernel(Rows rows, int64_t k) : rows_(rows), k_(k) {}

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    const int32_t* labels = static_cast<const int32_t*>(context.inputs[1]);
    int64_t correct = 0;
    for (int64_t r = 0; r < rows_.rows; ++r) {
      const float* row = x + r * rows_.columns;
      const bool is_correct = k_ == 1
                                  ? std::max_element(row, row + rows_.columns) - row == labels[r]
                                  : IsAmongLargest(row, labels[r]);
      correct += is_correct ? 1 : 0;
    }
    *FloatOutput(context, 0) = static_cast<float>(correct);
  }

 private:
  bool IsAmongLargest(const float* row, int32_t label) const {
    if (label < 0 || label >= rows_.columns) return false;
    int64_t larger = 0;
    for (int64_t j = 0; j < rows_.columns; ++j) {
      larger += row[j] > row[label] || (row[j] == row[label] && j < label) ? 1 : 0;
    }
    return larger < k_;
  }

  const Rows rows_;
  const int64_t k_;
};

absl::Status CheckSparse(const CpuRequest& request, int labels_at, int inputs, int outputs) {
  if (request.num_inputs() != inputs || request.num_outputs() != outputs) {
    return request.Invalid("wrong number of inputs or outputs");
  }
  if (request.input(0).dtype != DataType::kFloat32 ||
      request.input(labels_at).dtype != DataType::kInt32) {
    return request.NoKernel();
  }
  const Rows rows = RowsOf(request.input(0).shape);
  if (rows.columns < 1 || request.input(labels_at).shape.num_elements() != rows.rows) {
    return request.Invalid("want logits[n,c] and labels[n]");
  }
  return absl::OkStatus();
}

}  // namespace

KernelOr CreateSoftmax(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  return std::make_unique<SoftmaxKernel>(request, RowsOf(request.input(0).shape),
                                         request.request.op == "LogSoftmax");
}

KernelOr CreateSoftmaxGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 2, 1); !status.ok()) return status;
  return std::make_unique<SoftmaxGradKernel>(request, RowsOf(request.input(0).shape),
                                             request.request.op == "LogSoftmaxGrad");
}

KernelOr CreateSparseSoftmaxCrossEntropy(const CpuRequest& request) {
  if (absl::Status status = CheckSparse(request, 1, 2, 2); !status.ok()) return status;
  return std::make_unique<SparseCrossEntropyKernel>(request, RowsOf(request.input(0).shape));
}

KernelOr CreateSparseSoftmaxCrossEntropyGrad(const CpuRequest& request) {
  if (absl::Status status = CheckSparse(request, 1, 3, 1); !status.ok()) return status;
  return std::make_unique<SparseCrossEntropyGradKernel>(request, RowsOf(request.input(0).shape));
}

KernelOr CreateSoftmaxCrossEntropy(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 2, 2); !status.ok()) return status;
  return std::make_unique<CrossEntropyKernel>(request, RowsOf(request.input(0).shape));
}

KernelOr CreateSoftmaxCrossEntropyGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(3, 3, 1); !status.ok()) return status;
  return std::make_unique<CrossEntropyGradKernel>(request, RowsOf(request.input(0).shape));
}

KernelOr CreateCorrectCount(const CpuRequest& request) {
  if (absl::Status status = CheckSparse(request, 1, 2, 1); !status.ok()) return status;
  return std::make_unique<CorrectCountKernel>(RowsOf(request.input(0).shape),
                                              request.attributes().GetInt("k", 1));
}

}  // namespace shoal::cpu
