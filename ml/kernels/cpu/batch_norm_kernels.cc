// BatchNorm and BatchNormGrad, over all dimensions except the channels, in the plain layout or in
// blocks of 16 channels.

#include <algorithm>
#include <cmath>

#include "ml/kernels/cpu/batch_norm_gradient.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/simd/normalization_kernels.h"

namespace shoal::cpu {
namespace {

// x, scale, offset, moving mean and variance, optional residual -> y = activation(norm + residual),
// mean, variance, inverse deviation.
class BatchNormKernel : public Kernel {
 public:
  BatchNormKernel(const CpuRequest& request, const Bounds& bounds)
      : bounds_(bounds),
        has_residual_(request.num_inputs() == 6),
        loops_(NormalizationKernelsFor(request.isa)),
        threads_(request.threads()),
        view_(ChannelView::Of(request.input(0))),
        training_(request.attributes().GetBool("training", true)),
        epsilon_(request.attributes().GetDouble("epsilon", 1e-3)) {}

  void Run(const KernelContext& context) override {
    ParallelFor(threads_, view_.groups, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) RunGroup(context, g);
    });
  }

 private:
  struct Moments {
    LaneSums mean{}, variance{};  // variance of the batch, not corrected
  };

  // Deviations are taken from the channel's first element, so that a large mean costs no digits.
  Moments BatchMoments(const float* x, int64_t group) const {
    Lanes shift;
    for (int i = 0; i < kChannelBlock; ++i) {
      shift[i] = x[view_.Offset(0, group) + (view_.group_channels == 1 ? 0 : i)];
    }
    Moments m;
    for (int64_t n = 0; n < view_.batch; ++n) {
      loops_.add_moments(x + view_.Offset(n, group), view_.run, shift.data(), m.mean.data(),
                         m.variance.data());
    }
    Combine(view_, &m.mean);
    Combine(view_, &m.variance);
    const double count = static_cast<double>(view_.per_channel());
    for (int i = 0; i < kChannelBlock; ++i) {
      const double deviation = m.mean[i] / count;
      m.variance[i] = std::max(m.variance[i] / count - deviation * deviation, 0.0);
      m.mean[i] = deviation + static_cast<double>(shift[i]);
    }
    return m;
  }

  Moments MovingMoments(const KernelContext& context, int64_t group) const {
    const Lanes mean = Spread(view_, FloatInput(context, 3), group);
    const Lanes variance = Spread(view_, FloatInput(context, 4), group);
    Moments m;
    std::copy(mean.begin(), mean.end(), m.mean.begin());
    std::copy(variance.begin(), variance.end(), m.variance.begin());
    return m;
  }

  void RunGroup(const KernelContext& context, int64_t group) const {
    const Moments m =
        training_ ? BatchMoments(FloatInput(context, 0), group) : MovingMoments(context, group);
    const Lanes scale = Spread(view_, FloatInput(context, 1), group);
    const Lanes offset = Spread(view_, FloatInput(context, 2), group);
    const double count = static_cast<double>(view_.per_channel());
    const double correction = training_ && count > 1.0 ? count / (count - 1.0) : 1.0;
    Lanes mean, inv_std, a, c;
    for (int i = 0; i < kChannelBlock; ++i) {
      mean[i] = static_cast<float>(m.mean[i]);
      inv_std[i] = static_cast<float>(1.0 / std::sqrt(m.variance[i] + epsilon_));
      if (i >= view_.group_channels) continue;
      const int64_t channel = group * view_.group_channels + i;
      Set(context, 1, channel, m.mean[i]);
      Set(context, 2, channel, m.variance[i] * correction);
      Set(context, 3, channel, static_cast<double>(inv_std[i]));
    }
    if (context.outputs[0] == nullptr) return;
    MakeAffine(scale, offset, mean, inv_std, &a, &c);
    const ClampedAffine affine{a.data(), c.data(), bounds_.low, bounds_.high};
    for (int64_t n = 0; n < view_.batch; ++n) {
      const int64_t at = view_.Offset(n, group);
      loops_.affine(FloatInput(context, 0) + at,
                    has_residual_ ? FloatInput(context, 5) + at : nullptr, view_.run, affine,
                    FloatOutput(context, 0) + at);
    }
  }

  static void Set(const KernelContext& context, int output, int64_t channel, double value) {
    if (float* to = FloatOutput(context, output); to != nullptr) {
      to[channel] = static_cast<float>(value);
    }
  }

  const Bounds bounds_;
  const bool has_residual_;
  const NormalizationKernels& loops_;
  const int threads_;
  const ChannelView view_;
  const bool training_;
  const double epsilon_;
};

// x, scale, mean, inverse deviation, dy, and with an activation offset -> dx, dscale, doffset.
class BatchNormGradKernel : public Kernel {
 public:
  BatchNormGradKernel(const CpuRequest& request, const Bounds& bounds)
      : has_activation_(request.num_inputs() == 6),
        threads_(request.threads()),
        gradient_(request, request.input(0), bounds) {}

  void Run(const KernelContext& context) override {
    const BatchNormGradient::Buffers buffers{
        FloatInput(context, 0),  FloatInput(context, 4),
        FloatInput(context, 1),  FloatInput(context, 2),
        FloatInput(context, 3),  has_activation_ ? FloatInput(context, 5) : nullptr,
        FloatOutput(context, 1), FloatOutput(context, 2),
    };
    float* dx = FloatOutput(context, 0);
    const ChannelView& view = gradient_.view();
    ParallelFor(threads_, view.groups, [&](int64_t begin, int64_t end) {
      BatchNormGradient::Coefficients coefficients;
      for (int64_t g = begin; g < end; ++g) {
        gradient_.Sum(buffers, g, &coefficients);
        for (int64_t n = 0; dx != nullptr && n < view.batch; ++n) {
          gradient_.Apply(buffers, coefficients, n, g, dx + view.Offset(n, g));
        }
      }
    });
  }

 private:
  const bool has_activation_;
  const int threads_;
  const BatchNormGradient gradient_;
};

absl::Status CheckChannels(const CpuRequest& request, int first, int last) {
  const Shape& x = request.input(0).shape;
  if ((x.rank() != 2 && x.rank() != 4) || x.num_elements() == 0) {
    return request.Invalid("want [batch,features] or images, not empty");
  }
  for (int i = first; i <= last; ++i) {
    if (request.input(i).shape.num_elements() != x.dim(1)) {
      return request.Invalid("want one parameter for each channel");
    }
  }
  return absl::OkStatus();
}

}  // namespace

KernelOr CreateBatchNorm(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(5, 6, 4); !status.ok()) return status;
  if (absl::Status status = CheckChannels(request, 1, 4); !status.ok()) return status;
  if (request.input(0) != request.output(0)) return request.Invalid("want x and y alike");
  if (request.num_inputs() == 6 && request.input(5) != request.input(0)) {
    return request.Invalid("want x and the residual alike");
  }
  const absl::StatusOr<Bounds> bounds = ComputeBounds(request);
  if (!bounds.ok()) return bounds.status();
  return std::make_unique<BatchNormKernel>(request, *bounds);
}

KernelOr CreateBatchNormGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(5, 6, 3); !status.ok()) return status;
  if (absl::Status status = CheckChannels(request, 1, 3); !status.ok()) return status;
  if (request.input(0) != request.input(4) || request.input(0) != request.output(0)) {
    return request.Invalid("want x, dy and dx alike");
  }
  const absl::StatusOr<Bounds> bounds = ComputeBounds(request);
  if (!bounds.ok()) return bounds.status();
  const bool has_activation = request.attributes().GetString("activation", "none") != "none";
  if (has_activation != (request.num_inputs() == 6)) {
    return request.Invalid("want the offset with an activation, and only then");
  }
  if (absl::Status status = CheckChannels(request, request.num_inputs() == 6 ? 5 : 1,
                                          request.num_inputs() == 6 ? 5 : 3);
      !status.ok()) {
    return status;
  }
  return std::make_unique<BatchNormGradKernel>(request, *bounds);
}

}  // namespace shoal::cpu
