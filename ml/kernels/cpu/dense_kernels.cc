// MatMul, Dense and DenseGrad.

#include <algorithm>
#include <vector>

#include "ml/kernels/cpu/gemm.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/simd/product_kernels.h"

namespace shoal::cpu {
namespace {

int64_t RoundUp(int64_t value, int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

// c[b] = a[b] * b[b] for a batch of matrices; b's batch may be 1.
class MatMulKernel : public Kernel {
 public:
  struct Sizes {
    int64_t batch, m, n, k;
    bool transpose_a, transpose_b, b_is_shared;
  };

  MatMulKernel(const SimdKernels& simd, int threads, Sizes sizes)
      : simd_(simd), threads_(threads), s_(sizes) {}

  void Run(const KernelContext& context) override {
    const float* a = FloatInput(context, 0);
    const float* b = FloatInput(context, 1);
    float* c = FloatOutput(context, 0);
    const auto multiply = [&](int64_t i, int threads) {
      ParallelGemm(simd_, threads, s_.m, s_.n, s_.k,
                   {a + i * s_.m * s_.k, s_.transpose_a ? s_.m : s_.k, s_.transpose_a},
                   {b + (s_.b_is_shared ? 0 : i * s_.k * s_.n), s_.transpose_b ? s_.k : s_.n,
                    s_.transpose_b},
                   c + i * s_.m * s_.n);
    };
    if (s_.batch < threads_ || threads_ == 1) {
      for (int64_t i = 0; i < s_.batch; ++i) multiply(i, threads_);
      return;
    }
    OmpThreadsScope scope(threads_);
    ParallelFor(threads_, s_.batch, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) multiply(i, 1);
    });
  }

 private:
  const SimdKernels& simd_;
  const int threads_;
  const Sizes s_;
};

// Computes y = activation(x * w + bias), in chunks of rows that are still in the L2 cache when bias
// and activation are applied. If a fused product is faster, it computes all of it tile by tile.
class DenseKernel : public Kernel {
 public:
  struct Sizes {
    int64_t m, n, k;
    bool has_bias, bias_is_scalar;
    Activation activation;
  };

  DenseKernel(const CpuRequest& request, Sizes sizes)
      : simd_(request.simd),
        product_(ProductKernelsFor(request.isa)),
        threads_(request.threads()),
        s_(sizes),
        is_tiled_(TilesAreFaster()) {
    chunk_ = RowsPerChunk(s_.m, s_.n, threads_, is_tiled_ ? product_.rows_per_tile : 1);
  }

  size_t workspace_bytes() const override {
    return is_tiled_ ? static_cast<size_t>(PackedBytes() + s_.n * 4) : 0;
  }

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    const float* w = FloatInput(context, 1);
    const Operand bias{s_.has_bias ? FloatInput(context, 2) : nullptr, s_.bias_is_scalar};
    float* y = FloatOutput(context, 0);
    if (is_tiled_) Pack(w, bias, static_cast<char*>(context.workspace));
    OmpThreadsScope scope(threads_);
    ParallelFor(threads_, (s_.m + chunk_ - 1) / chunk_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        const int64_t row = i * chunk_;
        const int64_t rows = std::min(chunk_, s_.m - row);
        if (is_tiled_) {
          RunTiles(x + row * s_.k, context.workspace, y + row * s_.n, rows);
        } else {
          RunChunk(x + row * s_.k, w, bias, y + row * s_.n, rows);
        }
      }
    });
  }

 private:
  // Measured with many rows, and weights that stay in L2 and L3: every tile's rows pass all of
  // them.
  bool TilesAreFaster() const {
    return product_.biased_product_is_faster &&
           (s_.activation == Activation::kNone || s_.activation == Activation::kRelu) &&
           s_.n % product_.columns_per_panel == 0 && s_.n >= 64 && s_.k >= 64 && s_.m >= 256 &&
           s_.k * s_.n <= int64_t{1} << 19;
  }

  int64_t PackedBytes() const { return AlignedBytes(s_.k * s_.n * 4); }

  void Pack(const float* w, Operand bias, char* workspace) {
    product_.pack_columns(w, s_.k, s_.n, reinterpret_cast<float*>(workspace));
    float* row = reinterpret_cast<float*>(workspace + PackedBytes());
    for (int64_t i = 0; i < s_.n; ++i) {
      row[i] = bias.data == nullptr ? 0.0f : bias.data[bias.is_scalar ? 0 : i];
    }
  }

  void RunTiles(const float* x, const void* workspace, float* y, int64_t rows) {
    const char* packed = static_cast<const char*>(workspace);
    product_.biased_product({x, reinterpret_cast<const float*>(packed),
                             reinterpret_cast<const float*>(packed + PackedBytes()), y, rows, s_.k,
                             s_.n, s_.activation == Activation::kRelu});
  }

  void RunChunk(const float* x, const float* w, Operand bias, float* y, int64_t rows) {
    if (s_.n == 1) {
      simd_.matrix_vector(x, w, y, rows, s_.k);
    } else {
      Gemm(rows, s_.n, s_.k, {x, s_.k}, {w, s_.n}, y, s_.n);
    }
    simd_.bias_activation(y, rows, s_.n, s_.n, bias, s_.activation);
  }

  const SimdKernels& simd_;
  const ProductKernels& product_;
  const int threads_;
  const Sizes s_;
  const bool is_tiled_;
  int64_t chunk_;
};

// dz = dy * activation'(y); dx = dz * w^T (through the ReLU that made x, if input_relu); dw = x^T *
// dz; dbias = the sum of dz over rows, dinput_bias that of dx. Everything except dw is computed in
// chunks of rows, while dz is in the L2 cache.
class DenseGradKernel : public Kernel {
 public:
  struct Sizes {
    int64_t m, n, k;
    bool dx_needed, dw_needed, dbias_needed, bias_is_scalar, input_relu;
    bool dinput_bias_needed, input_bias_is_scalar;
    Activation activation;
  };

  DenseGradKernel(const CpuRequest& request, Sizes sizes)
      : simd_(request.simd),
        product_(ProductKernelsFor(request.isa)),
        threads_(request.threads()),
        s_(sizes),
        dinput_bias_(request.num_outputs() - 1),
        has_dz_(s_.activation != Activation::kNone),
        is_tiled_(s_.input_relu && s_.dx_needed && s_.n > 1 && s_.n <= kMostTiledColumns) {
    const int64_t tile = is_tiled_ ? product_.rows_per_tile : 1;
    chunk_ = RowsPerChunk(s_.m, std::max(s_.n, s_.k), threads_, tile);
    chunks_ = (s_.m + chunk_ - 1) / chunk_;
  }

  size_t workspace_bytes() const override {
    return static_cast<size_t>(DzBytes() + SumsBytes(s_.n) + SumsBytes(s_.k) + PackedBytes());
  }

  void Run(const KernelContext& context) override {
    Pointers p;
    p.x = FloatInput(context, 0);
    p.w = FloatInput(context, 1);
    p.y = FloatInput(context, 2);
    p.dy = FloatInput(context, 3);
    char* workspace = static_cast<char*>(context.workspace);
    p.dz = has_dz_ ? reinterpret_cast<float*>(workspace) : nullptr;
    p.sums = reinterpret_cast<float*>(workspace + DzBytes());
    p.input_sums = reinterpret_cast<float*>(workspace + DzBytes() + SumsBytes(s_.n));
    p.packed = reinterpret_cast<float*>(workspace + DzBytes() + SumsBytes(s_.n) + SumsBytes(s_.k));
    p.dx = s_.dx_needed ? FloatOutput(context, 0) : nullptr;
    if (is_tiled_) product_.pack_rows(p.w, s_.k, s_.n, p.packed);
    OmpThreadsScope scope(threads_);
    ParallelFor(threads_, chunks_, [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) RunChunk(p, i);
    });
    if (s_.dbias_needed) SumBias(p.sums, s_.n, s_.bias_is_scalar, FloatOutput(context, 2));
    if (s_.dinput_bias_needed) {
      SumBias(p.input_sums, s_.k, s_.input_bias_is_scalar, FloatOutput(context, dinput_bias_));
    }
    if (s_.dw_needed) MultiplyWeights(p.x, has_dz_ ? p.dz : p.dy, context);
  }

 private:
  struct Pointers {
    const float *x, *w, *y, *dy;
    float *dz, *sums, *input_sums, *packed, *dx;
  };

  // Packed weights of wider layers would not stay in L2 beside the rows: there oneDNN is faster.
  static constexpr int64_t kMostTiledColumns = 256;

  int64_t DzBytes() const { return has_dz_ ? AlignedBytes(s_.m * s_.n * 4) : 0; }
  int64_t SumsBytes(int64_t columns) const { return AlignedBytes((chunks_ + 1) * columns * 4); }
  int64_t PackedBytes() const {
    return is_tiled_ ? AlignedBytes(RoundUp(s_.k, product_.columns_per_panel) * s_.n * 4) : 0;
  }

  void RunChunk(const Pointers& p, int64_t index) {
    const int64_t row = index * chunk_;
    const int64_t rows = std::min(chunk_, s_.m - row);
    const int64_t at = row * s_.n;
    float* sums = s_.dbias_needed ? p.sums + index * s_.n : nullptr;
    if (s_.n == 1) {
      ColumnGradient(p, at, rows, sums);
    } else if (has_dz_ || sums != nullptr) {
      simd_.activation_gradient(s_.activation, p.y + at, p.dy + at, has_dz_ ? p.dz + at : nullptr,
                                rows, s_.n, sums);
    }
    if (p.dx == nullptr) return;
    const float* dz = (has_dz_ ? p.dz : p.dy) + at;
    const float* x = p.x + row * s_.k;
    float* dx = p.dx + row * s_.k;
    float* input_sums = p.input_sums + index * s_.k;
    if (is_tiled_) {
      product_.input_gradient({dz, p.packed, x, dx, input_sums, rows, s_.k, s_.n});
      return;
    }
    if (s_.n == 1) {
      simd_.outer(dz, p.w, dx, rows, s_.k);
    } else {
      Gemm(rows, s_.k, s_.n, {dz, s_.n}, {p.w, s_.n, true}, dx, s_.k);
    }
    if (s_.input_relu) {
      simd_.activation_gradient(Activation::kRelu, x, dx, dx, rows, s_.k,
                                s_.dinput_bias_needed ? input_sums : nullptr);
    }
  }

  // dw in parts of rows, so that its first ones can be pushed while the others are computed.
  void MultiplyWeights(const float* x, const float* dz, const KernelContext& context) {
    constexpr int64_t kPartElements = int64_t{1} << 16, kFewestRows = 128;
    float* dw = FloatOutput(context, 1);
    const int64_t part = s_.n == 1 ? s_.k : std::max(kFewestRows, kPartElements / s_.n);
    for (int64_t row = 0; row < s_.k; row += part) {
      const int64_t rows = std::min(part, s_.k - row);
      ParallelGemm(simd_, threads_, rows, s_.n, s_.m, {x + row, s_.k, true}, {dz, s_.n},
                   dw + row * s_.n);
      const int64_t end = row + rows;
      if (context.parts != nullptr && end < s_.k) context.parts->OnPart(1, end * s_.n);
    }
  }

  // One column: its rows are as contiguous as the columns of a row.
  void ColumnGradient(const Pointers& p, int64_t at, int64_t rows, float* sum) {
    if (has_dz_) {
      simd_.activation_gradient(s_.activation, p.y + at, p.dy + at, p.dz + at, 1, rows, nullptr);
    }
    if (sum != nullptr) *sum = static_cast<float>(simd_.sum((has_dz_ ? p.dz : p.dy) + at, rows));
  }

  // The chunks' sums are added in their order: the same bytes for any number of threads that made
  // them.
  void SumBias(float* sums, int64_t columns, bool is_scalar, float* dbias) {
    float* total = is_scalar ? sums + chunks_ * columns : dbias;
    std::fill_n(total, columns, 0.0f);
    for (int64_t i = 0; i < chunks_; ++i) simd_.accumulate(sums + i * columns, total, columns);
    if (is_scalar) *dbias = static_cast<float>(simd_.sum(total, columns));
  }

  const SimdKernels& simd_;
  const ProductKernels& product_;
  const int threads_;
  const Sizes s_;
  const int dinput_bias_;  // index of the output
  const bool has_dz_;
  const bool is_tiled_;  // product, mask and sums of dx in one
  int64_t chunk_;
  int64_t chunks_;
};

int64_t LeadingElements(const Shape& shape, int dims) {
  int64_t product = 1;
  for (int i = 0; i < dims; ++i) product *= shape.dim(i);
  return product;
}

}  // namespace

KernelOr CreateMatMul(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 2, 1); !status.ok()) return status;
  const Shape& a = request.input(0).shape;
  const Shape& b = request.input(1).shape;
  if (a.rank() < 2 || b.rank() < 2 || (b.rank() > 2 && a.rank() != b.rank())) {
    return request.Invalid("both operands need two dimensions, and batches of the same shape");
  }
  MatMulKernel::Sizes s;
  s.transpose_a = request.attributes().GetBool("transpose_a", false);
  s.transpose_b = request.attributes().GetBool("transpose_b", false);
  s.m = a.dim(a.rank() - (s.transpose_a ? 1 : 2));
  s.k = a.dim(a.rank() - (s.transpose_a ? 2 : 1));
  s.n = b.dim(b.rank() - (s.transpose_b ? 2 : 1));
  s.batch = LeadingElements(a, a.rank() - 2);
  s.b_is_shared = b.rank() == 2;
  const bool batches_match = s.b_is_shared || LeadingElements(b, b.rank() - 2) == s.batch;
  if (b.dim(b.rank() - (s.transpose_b ? 1 : 2)) != s.k || !batches_match ||
      request.output(0).shape.num_elements() != s.batch * s.m * s.n) {
    return request.Invalid("the shapes do not fit a matrix product");
  }
  if (s.b_is_shared && !s.transpose_a) {
    s.m *= s.batch;
    s.batch = 1;
  }
  return std::make_unique<MatMulKernel>(request.simd, request.threads(), s);
}

KernelOr CreateDense(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(2, 3, 1); !status.ok()) return status;
  const absl::StatusOr<Activation> activation =
      ActivationFromName(request.attributes().GetString("activation", "none"));
  if (!activation.ok()) return activation.status();
  const Shape& x = request.input(0).shape;
  const Shape& w = request.input(1).shape;
  if (x.rank() != 2 || w.rank() != 2 || x.dim(1) != w.dim(0) ||
      request.output(0).shape != Shape({x.dim(0), w.dim(1)})) {
    return request.Invalid("want x[m,k], w[k,n] -> y[m,n]");
  }
  DenseKernel::Sizes s{x.dim(0), w.dim(1), x.dim(1), request.num_inputs() == 3, false, *activation};
  if (s.has_bias) {
    const Shape& bias = request.input(2).shape;
    s.bias_is_scalar = bias.num_elements() == 1;
    if (!s.bias_is_scalar && bias.num_elements() != s.n) {
      return request.Invalid("want a bias of [n] or []");
    }
  }
  return std::make_unique<DenseKernel>(request, s);
}

KernelOr CreateDenseGrad(const CpuRequest& request) {
  const bool has_input_bias = request.attributes().GetBool("has_input_bias", false);
  const int own_outputs = request.num_outputs() - (has_input_bias ? 1 : 0);
  const bool has_bias = own_outputs == 3;
  const int num_outputs = (has_bias ? 3 : 2) + (has_input_bias ? 1 : 0);
  if (absl::Status status = request.CheckFloat(4, 4, num_outputs); !status.ok()) return status;
  const absl::StatusOr<Activation> activation =
      ActivationFromName(request.attributes().GetString("activation", "none"));
  if (!activation.ok()) return activation.status();
  const Shape& x = request.input(0).shape;
  const Shape& w = request.input(1).shape;
  if (x.rank() != 2 || w.rank() != 2 || x.dim(1) != w.dim(0) ||
      request.input(3).shape != Shape({x.dim(0), w.dim(1)}) ||
      request.input(2).shape != request.input(3).shape) {
    return request.Invalid("want x[m,k], w[k,n], y[m,n], dy[m,n]");
  }
  DenseGradKernel::Sizes s{};
  s.m = x.dim(0);
  s.n = w.dim(1);
  s.k = x.dim(1);
  s.activation = *activation;
  s.dx_needed = request.needed(0);
  s.dw_needed = request.needed(1);
  s.dbias_needed = has_bias && request.needed(2);
  s.input_relu = request.attributes().GetBool("input_relu", false);
  if (has_bias) {
    s.bias_is_scalar = request.output(2).shape.num_elements() == 1;
    if (!s.bias_is_scalar && request.output(2).shape.num_elements() != s.n) {
      return request.Invalid("want a bias gradient of [n] or []");
    }
  }
  if (has_input_bias) {
    const int index = request.num_outputs() - 1;
    const Shape& bias = request.output(index).shape;
    s.dinput_bias_needed = request.needed(index);
    s.input_bias_is_scalar = bias.rank() == 0;
    if (!s.input_relu || !s.dx_needed || !(bias.rank() == 0 || bias == Shape({s.k}))) {
      return request.Invalid("want an input bias of [k] or [] beside dx through the input's ReLU");
    }
  }
  return std::make_unique<DenseGradKernel>(request, s);
}

}  // namespace shoal::cpu
