#include <cmath>
#include <vector>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

// x[rows, columns] of the last dimension.
struct Rows {
  explicit Rows(const Shape& shape)
      : columns(shape.rank() == 0 ? 1 : shape.dim(shape.rank() - 1)),
        count(columns == 0 ? 0 : shape.num_elements() / columns) {}
  int64_t columns, count;
};

// Adds every element of x to the element of `to` that is broadcast to it.
template <typename T>
std::vector<double> SumInto(const T* x, const Shape& from, const Shape& to) {
  std::vector<double> sums(static_cast<size_t>(to.num_elements()));
  for (int64_t i = 0; i < from.num_elements(); ++i) {
    sums[static_cast<size_t>(BroadcastIndex(to, from, i))] += x[i];
  }
  return sums;
}

template <typename T>
void SumTo(const Call& call) {
  const auto sums = SumInto(call.In<T>(0), call.InShape(0), call.OutShape(0));
  for (size_t i = 0; i < sums.size(); ++i) call.Out<T>(0)[i] = static_cast<T>(sums[i]);
}

template <typename T>
void BroadcastTo(const Call& call) {
  const Shape& shape = call.OutShape(0);
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    call.Out<T>(0)[i] = call.In<T>(0)[BroadcastIndex(call.InShape(0), shape, i)];
  }
}

// The input's shape with 1 in the place of the reduced axes.
Shape KeptShape(const Call& call) {
  Shape shape = call.InShape(0);
  const auto axes = call.attributes.GetInts("axes", {});
  for (int k = 0; k < shape.rank(); ++k) {
    bool is_reduced = axes.empty();
    for (int64_t axis : axes) is_reduced |= (axis < 0 ? axis + shape.rank() : axis) == k;
    if (is_reduced) shape.set_dim(k, 1);
  }
  return shape;
}

template <typename T>
void ReduceSum(const Call& call) {
  const auto sums = SumInto(call.In<T>(0), call.InShape(0), KeptShape(call));
  for (size_t i = 0; i < sums.size(); ++i) call.Out<T>(0)[i] = static_cast<T>(sums[i]);
}

template <typename T>
void ReduceMean(const Call& call) {
  const auto sums = SumInto(call.In<T>(0), call.InShape(0), KeptShape(call));
  const double count =
      static_cast<double>(call.InShape(0).num_elements()) / static_cast<double>(sums.size());
  for (size_t i = 0; i < sums.size(); ++i) call.Out<T>(0)[i] = static_cast<T>(sums[i] / count);
}

template <typename T>
void ReduceExtreme(const Call& call, bool largest) {
  const Shape kept = KeptShape(call);
  const T* x = call.In<T>(0);
  std::vector<bool> seen(static_cast<size_t>(kept.num_elements()));
  for (int64_t i = 0; i < call.InShape(0).num_elements(); ++i) {
    const int64_t at = BroadcastIndex(kept, call.InShape(0), i);
    T& best = call.Out<T>(0)[at];
    const bool is_better = largest ? x[i] > best : x[i] < best;
    if (!seen[static_cast<size_t>(at)] || is_better || std::isnan(x[i])) best = x[i];
    seen[static_cast<size_t>(at)] = true;
  }
}

template <typename T>
void ReduceMax(const Call& call) {
  ReduceExtreme<T>(call, true);
}

template <typename T>
void ReduceMin(const Call& call) {
  ReduceExtreme<T>(call, false);
}

template <typename T>
void L2Loss(const Call& call) {
  double sum = 0;
  for (int64_t i = 0; i < call.InShape(0).num_elements(); ++i) {
    sum += static_cast<double>(call.In<T>(0)[i]) * call.In<T>(0)[i];
  }
  *call.Out<T>(0) = static_cast<T>(sum / 2);
}

// log of the sum of exponentials of a row.
template <typename T>
double LogSumExp(const T* row, int64_t columns) {
  double most = row[0];
  for (int64_t j = 1; j < columns; ++j) most = std::isnan(row[j]) || row[j] > most ? row[j] : most;
  double sum = 0;
  for (int64_t j = 0; j < columns; ++j) sum += std::exp(row[j] - most);
  return most + std::log(sum);
}

template <typename T>
void LogSoftmax(const Call& call) {
  const Rows rows(call.InShape(0));
  for (int64_t i = 0; i < rows.count; ++i) {
    const T* x = call.In<T>(0) + i * rows.columns;
    const double total = LogSumExp(x, rows.columns);
    for (int64_t j = 0; j < rows.columns; ++j) {
      call.Out<T>(0)[i * rows.columns + j] = static_cast<T>(x[j] - total);
    }
  }
}

template <typename T>
void Softmax(const Call& call) {
  const Rows rows(call.InShape(0));
  for (int64_t i = 0; i < rows.count; ++i) {
    const T* x = call.In<T>(0) + i * rows.columns;
    const double total = LogSumExp(x, rows.columns);
    for (int64_t j = 0; j < rows.columns; ++j) {
      call.Out<T>(0)[i * rows.columns + j] = static_cast<T>(std::exp(x[j] - total));
    }
  }
}

// y, dy -> y * (dy - sum(y * dy))
template <typename T>
void SoftmaxGrad(const Call& call) {
  const Rows rows(call.InShape(0));
  for (int64_t i = 0; i < rows.count; ++i) {
    const T* y = call.In<T>(0) + i * rows.columns;
    const T* dy = call.In<T>(1) + i * rows.columns;
    double sum = 0;
    for (int64_t j = 0; j < rows.columns; ++j) sum += static_cast<double>(y[j]) * dy[j];
    for (int64_t j = 0; j < rows.columns; ++j) {
      call.Out<T>(0)[i * rows.columns + j] = static_cast<T>(y[j] * (dy[j] - sum));
    }
  }
}

// y, dy -> dy - exp(y) * sum(dy)
template <typename T>
void LogSoftmaxGrad(const Call& call) {
  const Rows rows(call.InShape(0));
  for (int64_t i = 0; i < rows.count; ++i) {
    const T* y = call.In<T>(0) + i * rows.columns;
    const T* dy = call.In<T>(1) + i * rows.columns;
    double sum = 0;
    for (int64_t j = 0; j < rows.columns; ++j) sum += dy[j];
    for (int64_t j = 0; j < rows.columns; ++j) {
      call.Out<T>(0)[i * rows.columns + j] =
          static_cast<T>(dy[j] - std::exp(static_cast<double>(y[j])) * sum);
    }
  }
}

constexpr Op kOps[] = {
    {"SumTo", &SumTo<float>, &SumTo<double>},
    {"BroadcastTo", &BroadcastTo<float>, &BroadcastTo<double>},
    {"ReduceSum", &ReduceSum<float>, &ReduceSum<double>},
    {"ReduceMean", &ReduceMean<float>, &ReduceMean<double>},
    {"ReduceMax", &ReduceMax<float>, &ReduceMax<double>},
    {"ReduceMin", &ReduceMin<float>, &ReduceMin<double>},
    {"L2Loss", &L2Loss<float>, &L2Loss<double>},
    {"Softmax", &Softmax<float>, &Softmax<double>},
    {"SoftmaxGrad", &SoftmaxGrad<float>, &SoftmaxGrad<double>},
    {"LogSoftmax", &LogSoftmax<float>, &LogSoftmax<double>},
    {"LogSoftmaxGrad", &LogSoftmaxGrad<float>, &LogSoftmaxGrad<double>},
};

}  // namespace

absl::Span<const Op> ReductionOps() { return kOps; }

}  // namespace shoal::reference
