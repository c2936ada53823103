// LayerNorm and LayerNormGrad, which normalize each row of n elements separately.

#include <algorithm>
#include <array>
#include <cmath>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/simd/normalization_kernels.h"

namespace shoal::cpu {
namespace {

struct Rows {
  int64_t count, size;
};

// x -> y, mean, inverse deviation of each row.
class LayerNormKernel : public Kernel {
 public:
  LayerNormKernel(const CpuRequest& request, const Rows& rows)
      : loops_(NormalizationKernelsFor(request.isa)),
        threads_(request.threads()),
        rows_(rows),
        epsilon_(request.attributes().GetDouble("epsilon", 1e-5)) {}

  void Run(const KernelContext& context) override {
    ParallelFor(threads_, rows_.count, [&](int64_t begin, int64_t end) {
      for (int64_t row = begin; row < end; ++row) RunRow(context, row);
    });
  }

 private:
  void RunRow(const KernelContext& context, int64_t row) const {
    const float* x = FloatInput(context, 0) + row * rows_.size;
    std::array<float, 16> shift;
    shift.fill(x[0]);
    std::array<double, 16> sums{}, squares{};
    loops_.add_moments(x, rows_.size, shift.data(), sums.data(), squares.data());
    double sum = 0, square = 0;
    for (int i = 0; i < 16; ++i) {
      sum += sums[i];
      square += squares[i];
    }
    const double count = static_cast<double>(rows_.size);
    const double deviation = sum / count;
    const double variance = std::max(square / count - deviation * deviation, 0.0);
    const float mean = static_cast<float>(static_cast<double>(x[0]) + deviation);
    const float inv_std = static_cast<float>(1.0 / std::sqrt(variance + epsilon_));
    if (float* means = FloatOutput(context, 1)) means[row] = mean;
    if (float* inverses = FloatOutput(context, 2)) inverses[row] = inv_std;
    if (context.outputs[0] == nullptr) return;
    loops_.normalize_row(x, rows_.size, mean, inv_std, FloatInput(context, 1),
                         FloatInput(context, 2), FloatOutput(context, 0) + row * rows_.size);
  }

  const NormalizationKernels& loops_;
  const int threads_;
  const Rows rows_;
  const double epsilon_;
};

// x, scale, mean, inverse deviation, dy -> dx, dscale, doffset. With x^ = (x - mean) * inv_std and
// g = dy * scale over a row of n: dx = inv_std * (g - (sum g + x^ sum g x^) / n).
class LayerNormGradKernel : public Kernel {
 public:
  LayerNormGradKernel(const CpuRequest& request, const Rows& rows)
      : loops_(NormalizationKernelsFor(request.isa)), threads_(request.threads()), rows_(rows) {}

  // The parameters' gradients of each thread.
  size_t workspace_bytes() const override {
    return static_cast<size_t>(threads_ * 2 * AlignedBytes(rows_.size * 4));
  }

  void Run(const KernelContext& context) override {
    ParallelFor(threads_, threads_, [&](int64_t begin, int64_t end) {
      for (int64_t thread = begin; thread < end; ++thread) RunThread(context, thread);
    });
    for (int k = 0; k < 2; ++k) {
      float* to = FloatOutput(context, 1 + k);
      if (to == nullptr) continue;
      std::copy_n(PartOf(context, 0, k), rows_.size, to);
      for (int64_t thread = 1; thread < threads_; ++thread) {
        const float* part = PartOf(context, thread, k);
        for (int64_t i = 0; i < rows_.size; ++i) to[i] += part[i];
      }
    }
  }

 private:
  float* PartOf(const KernelContext& context, int64_t thread, int which) const {
    char* workspace = static_cast<char*>(context.workspace);
    return reinterpret_cast<float*>(workspace +
                                    (2 * thread + which) * AlignedBytes(rows_.size * 4));
  }

  void RunThread(const KernelContext& context, int64_t thread) const {
    float *dscale = PartOf(context, thread, 0), *doffset = PartOf(context, thread, 1);
    std::fill_n(dscale, rows_.size, 0.0f);
    std::fill_n(doffset, rows_.size, 0.0f);
    float* dx = FloatOutput(context, 0);
    const int64_t end = rows_.count * (thread + 1) / threads_;
    for (int64_t row = rows_.count * thread / threads_; row < end; ++row) {
      const int64_t at = row * rows_.size;
      loops_.normalize_row_gradient(FloatInput(context, 0) + at, FloatInput(context, 4) + at,
                                    rows_.size, FloatInput(context, 2)[row],
                                    FloatInput(context, 3)[row], FloatInput(context, 1), dscale,
                                    doffset, dx == nullptr ? nullptr : dx + at);
    }
  }

  const NormalizationKernels& loops_;
  const int threads_;
  const Rows rows_;
};

// Returns the rows of x over the dimensions from the attribute `axis` on. A row has as many
// elements as the scale.
absl::StatusOr<Rows> RowsOf(const CpuRequest& request) {
  const Shape& x = request.input(0).shape;
  const int64_t size = request.input(1).shape.num_elements();
  if (x.num_elements() == 0 || size == 0 || x.num_elements() % size != 0) {
    return request.Invalid("want rows, not empty, and a scale for each of their elements");
  }
  return Rows{x.num_elements() / size, size};
}

}  // namespace

KernelOr CreateLayerNorm(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(3, 3, 3); !status.ok()) return status;
  const absl::StatusOr<Rows> rows = RowsOf(request);
  if (!rows.ok()) return rows.status();
  if (request.input(0) != request.output(0) || request.input(2) != request.input(1) ||
      request.output(1).shape.num_elements() != rows->count) {
    return request.Invalid("want x and y, scale and offset alike");
  }
  return std::make_unique<LayerNormKernel>(request, *rows);
}

KernelOr CreateLayerNormGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(5, 5, 3); !status.ok()) return status;
  const absl::StatusOr<Rows> rows = RowsOf(request);
  if (!rows.ok()) return rows.status();
  if (request.input(0) != request.input(4) || request.input(0) != request.output(0) ||
      request.input(2).shape.num_elements() != rows->count) {
    return request.Invalid("want x, dy and dx alike");
  }
  return std::make_unique<LayerNormGradKernel>(request, *rows);
}

}  // namespace shoal::cpu
