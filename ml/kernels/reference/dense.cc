#include <algorithm>
#include <string>
#include <vector>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

// c[m,n] = op(a) op(b)
template <typename T>
void Multiply(const T* a, bool transpose_a, const T* b, bool transpose_b, int64_t m, int64_t k,
              int64_t n, T* c) {
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (int64_t l = 0; l < k; ++l) {
        const double x = transpose_a ? a[l * m + i] : a[i * k + l];
        const double y = transpose_b ? b[j * k + l] : b[l * n + j];
        sum += x * y;
      }
      c[i * n + j] = static_cast<T>(sum);
    }
  }
}

template <typename T>
void MatMul(const Call& call) {
  const bool transpose_a = call.attributes.GetBool("transpose_a", false);
  const bool transpose_b = call.attributes.GetBool("transpose_b", false);
  const Shape &a = call.InShape(0), &c = call.OutShape(0);
  const int rows = c.rank() - 2;  // the axes before are a batch
  const int64_t m = c.dim(rows), n = c.dim(rows + 1), k = a.dim(transpose_a ? rows : rows + 1);
  const int64_t batch = m * n == 0 ? 0 : c.num_elements() / (m * n);
  const bool is_shared = call.InShape(1).rank() < a.rank();
  for (int64_t i = 0; i < batch; ++i) {
    Multiply(call.In<T>(0) + i * m * k, transpose_a, call.In<T>(1) + (is_shared ? 0 : i * k * n),
             transpose_b, m, k, n, call.Out<T>(0) + i * m * n);
  }
}

// x[m,k], w[k,n], optional bias ([n] or scalar) -> y
template <typename T>
void Dense(const Call& call) {
  const int64_t m = call.InShape(0).dim(0), k = call.InShape(0).dim(1), n = call.InShape(1).dim(1);
  T* y = call.Out<T>(0);
  Multiply(call.In<T>(0), false, call.In<T>(1), false, m, k, n, y);
  const bool has_bias = call.inputs.size() > 2;
  const bool is_scalar = has_bias && call.InShape(2).num_elements() == 1;
  const std::string activation = call.attributes.GetString("activation", "none");
  for (int64_t i = 0; i < m * n; ++i) {
    const double bias = has_bias ? call.In<T>(2)[is_scalar ? 0 : i % n] : 0;
    y[i] = static_cast<T>(Activate(activation, y[i] + bias));
  }
}

// Sets to[j] to the sum of every element whose index is j modulo `size`.
template <typename T>
void SumColumns(const std::vector<T>& from, int64_t size, T* to) {
  std::vector<double> sums(static_cast<size_t>(size));
  for (size_t i = 0; i < from.size(); ++i) sums[i % sums.size()] += from[i];
  for (int64_t j = 0; j < size; ++j) to[j] = static_cast<T>(sums[static_cast<size_t>(j)]);
}

// x, w, y, dy -> dx, dw, dbias; input_relu and has_input_bias as in KernelBackend::fused_ops.
template <typename T>
void DenseGrad(const Call& call) {
  const int64_t m = call.InShape(0).dim(0), k = call.InShape(0).dim(1), n = call.InShape(1).dim(1);
  const std::string activation = call.attributes.GetString("activation", "none");
  std::vector<T> dz(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m * n; ++i) {
    const double slope = ActivationSlope(activation, call.In<T>(2)[i]);
    dz[static_cast<size_t>(i)] = static_cast<T>(slope * call.In<T>(3)[i]);
  }
  std::vector<T> dx(static_cast<size_t>(m * k));
  Multiply(dz.data(), false, call.In<T>(1), true, m, n, k, dx.data());
  if (call.attributes.GetBool("input_relu", false)) {
    for (size_t i = 0; i < dx.size(); ++i) {
      dx[i] = static_cast<T>(dx[i] * ActivationSlope("relu", call.In<T>(0)[i]));
    }
  }
  if (T* out = call.Out<T>(0)) std::copy(dx.begin(), dx.end(), out);
  if (T* dw = call.Out<T>(1)) Multiply(call.In<T>(0), true, dz.data(), false, k, m, n, dw);
  const bool has_input_bias = call.attributes.GetBool("has_input_bias", false);
  const size_t num_own = call.outputs.size() - (has_input_bias ? 1 : 0);
  for (size_t output = 2; output < call.outputs.size(); ++output) {
    if (call.Out<T>(output) == nullptr) continue;
    SumColumns(output < num_own ? dz : dx, call.OutShape(output).num_elements(),
               call.Out<T>(output));
  }
}

constexpr Op kOps[] = {
    {"MatMul", &MatMul<float>, &MatMul<double>},
    {"Dense", &Dense<float>, &Dense<double>},
    {"DenseGrad", &DenseGrad<float>, &DenseGrad<double>},
};

}  // namespace

absl::Span<const Op> DenseOps() { return kOps; }

}  // namespace shoal::reference
