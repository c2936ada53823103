// LocalResponseNorm and its gradient on plain images: y = x * s^-beta, where s = bias + alpha * the
// sum of squares over the channels c - depth_radius to c + depth_radius of the same pixel.

#include <algorithm>
#include <cmath>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"

namespace shoal::cpu {
namespace {

struct LocalResponse {
  int64_t images, channels, pixels, radius;
  float bias, alpha, beta;
  int threads;

  int64_t first(int64_t channel) const { return std::max<int64_t>(0, channel - radius); }
  int64_t end(int64_t channel) const { return std::min(channels, channel + radius + 1); }

  // s^-beta; the usual powers by roots.
  float Power(float s) const {
    if (beta == 0.5f) return 1.0f / std::sqrt(s);
    if (beta == 0.75f) return 1.0f / (std::sqrt(s) * std::sqrt(std::sqrt(s)));
    if (beta == 1.0f) return 1.0f / s;
    return std::pow(s, -beta);
  }
};

// The number of pixels for which the sums are on the stack.
constexpr int64_t kRun = 64;

// Calls body(offset of the run's channel 0, pixels in the run) for all runs of all images.
template <typename Body>
void ForEachRun(const LocalResponse& shape, Body body) {
  const int64_t runs = (shape.pixels + kRun - 1) / kRun;
  ParallelFor(shape.threads, shape.images * runs, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const int64_t pixel = i % runs * kRun;
      body(i / runs * shape.channels * shape.pixels + pixel, std::min(kRun, shape.pixels - pixel));
    }
  });
}

// Computes s for one channel's run of pixels.
void Scales(const LocalResponse& shape, const float* x, int64_t channel, int64_t count, float* s) {
  std::fill_n(s, count, 0.0f);
  for (int64_t c = shape.first(channel); c < shape.end(channel); ++c) {
    const float* row = x + c * shape.pixels;
    for (int64_t i = 0; i < count; ++i) s[i] += row[i] * row[i];
  }
  for (int64_t i = 0; i < count; ++i) s[i] = shape.bias + shape.alpha * s[i];
}

class LocalResponseNormKernel : public Kernel {
 public:
  explicit LocalResponseNormKernel(const LocalResponse& shape) : shape_(shape) {}

  void Run(const KernelContext& context) override {
    ForEachRun(shape_, [&](int64_t at, int64_t count) {
      float s[kRun];
      const float* x = FloatInput(context, 0) + at;
      float* y = FloatOutput(context, 0) + at;
      for (int64_t c = 0; c < shape_.channels; ++c) {
        Scales(shape_, x, c, count, s);
        for (int64_t i = 0; i < count; ++i) {
          y[c * shape_.pixels + i] = x[c * shape_.pixels + i] * shape_.Power(s[i]);
        }
      }
    });
  }

 private:
  const LocalResponse shape_;
};

// x, y, dy -> dx = dy s^-beta - 2 alpha beta x * (the sum over the window of dy y / s). The ratios
// dy y / s lie in the workspace, as x does.
class LocalResponseNormGradKernel : public Kernel {
 public:
  explicit LocalResponseNormGradKernel(const LocalResponse& shape) : shape_(shape) {}

  size_t workspace_bytes() const override {
    return static_cast<size_t>(shape_.images * shape_.channels * shape_.pixels * 4);
  }

  void Run(const KernelContext& context) override {
    ForEachRun(shape_, [&](int64_t at, int64_t count) {
      float* ratios = static_cast<float*>(context.workspace) + at;
      const float *x = FloatInput(context, 0) + at, *y = FloatInput(context, 1) + at;
      const float* dy = FloatInput(context, 2) + at;
      float* dx = FloatOutput(context, 0) + at;
      float s[kRun];
      for (int64_t c = 0; c < shape_.channels; ++c) {
        Scales(shape_, x, c, count, s);
        for (int64_t i = 0; i < count; ++i) {
          const int64_t k = c * shape_.pixels + i;
          ratios[k] = dy[k] * y[k] / s[i];
          dx[k] = dy[k] * shape_.Power(s[i]);
        }
      }
      const float factor = -2.0f * shape_.alpha * shape_.beta;
      for (int64_t c = 0; c < shape_.channels; ++c) {
        std::fill_n(s, count, 0.0f);
        for (int64_t j = shape_.first(c); j < shape_.end(c); ++j) {
          for (int64_t i = 0; i < count; ++i) s[i] += ratios[j * shape_.pixels + i];
        }
        for (int64_t i = 0; i < count; ++i) {
          dx[c * shape_.pixels + i] += factor * x[c * shape_.pixels + i] * s[i];
        }
      }
    });
  }

 private:
  const LocalResponse shape_;
};

absl::StatusOr<LocalResponse> ShapeOf(const CpuRequest& request) {
  const Shape& x = request.input(0).shape;
  const int64_t radius = request.attributes().GetInt("depth_radius", 5);
  if (x.rank() != 4 || radius < 0) return request.Invalid("want images and depth_radius >= 0");
  for (const TensorSpec& spec : request.request.inputs) {
    if (spec != request.output(0) || spec.layout != Layout::kPlain) {
      return request.Invalid("want plain images, all alike");
    }
  }
  const Attributes& a = request.attributes();
  return LocalResponse{x.dim(0),
                       x.dim(1),
                       x.dim(2) * x.dim(3),
                       radius,
                       static_cast<float>(a.GetDouble("bias", 1)),
                       static_cast<float>(a.GetDouble("alpha", 1)),
                       static_cast<float>(a.GetDouble("beta", 0.5)),
                       request.threads()};
}

}  // namespace

KernelOr CreateLocalResponseNorm(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  const absl::StatusOr<LocalResponse> shape = ShapeOf(request);
  if (!shape.ok()) return shape.status();
  return std::make_unique<LocalResponseNormKernel>(*shape);
}

KernelOr CreateLocalResponseNormGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(3, 3, 1); !status.ok()) return status;
  const absl::StatusOr<LocalResponse> shape = ShapeOf(request);
  if (!shape.ok()) return shape.status();
  return std::make_unique<LocalResponseNormGradKernel>(*shape);
}

}  // namespace shoal::cpu
