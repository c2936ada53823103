// BatchNorm and BatchNormGrad over all but the channels, in plain order or blocks of 16 channels.

#include <algorithm>
#include <array>
#include <cmath>

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/simd/normalization_kernels.h"

namespace shoal::cpu {
namespace {

constexpr int kBlock = 16;

// [batch][groups][run] floats; a group is a block of 16 channels, whose element e belongs to
// channel e % 16, or one channel.
struct ChannelView {
  int64_t batch, groups, run, group_channels;

  int64_t per_channel() const { return batch * (group_channels == 1 ? run : run / kBlock); }
  int64_t Offset(int64_t image, int64_t group) const { return (image * groups + group) * run; }
};

ChannelView ViewOf(const TensorSpec& spec) {
  const int64_t batch = spec.shape.dim(0), channels = spec.shape.dim(1);
  const int64_t pixels = spec.shape.rank() == 4 ? spec.shape.dim(2) * spec.shape.dim(3) : 1;
  // A row of a matrix is blocks of one pixel each.
  const bool blocked = spec.layout == Layout::kBlocked16 || (pixels == 1 && channels % kBlock == 0);
  if (blocked) return {batch, channels / kBlock, pixels * kBlock, kBlock};
  return {batch, channels, pixels, 1};
}

// One value for each of a group's 16 lanes.
using Lanes = std::array<float, kBlock>;
using Sums = std::array<double, kBlock>;

// The channels of a group, repeated if it is one.
Lanes Spread(const ChannelView& view, const float* values, int64_t group) {
  Lanes lanes;
  for (int i = 0; i < kBlock; ++i) {
    lanes[i] = values[group * view.group_channels + (view.group_channels == 1 ? 0 : i)];
  }
  return lanes;
}

// Sums of lanes that belong to one channel are added up.
void Combine(const ChannelView& view, Sums* sums) {
  if (view.group_channels != 1) return;
  double total = 0.0;
  for (double sum : *sums) total += sum;
  sums->fill(total);
}

// Bounds between which an activation is the identity; outside, the nearest bound.
struct Bounds {
  float low, high;
};

absl::StatusOr<Bounds> BoundsOf(const CpuRequest& request) {
  const absl::StatusOr<Activation> activation =
      ActivationFromName(request.attributes().GetString("activation", "none"));
  if (!activation.ok()) return activation.status();
  switch (*activation) {
    case Activation::kNone:
      return Bounds{-HUGE_VALF, HUGE_VALF};
    case Activation::kRelu:
      return Bounds{0, HUGE_VALF};
    case Activation::kRelu6:
      return Bounds{0, 6};
    default:
      return request.Invalid("want activation none, relu or relu6");
  }
}

// y = a * x + c of a group. From the rounded moments, so that forward and backward see the same.
void MakeAffine(const Lanes& scale, const Lanes& offset, const Lanes& mean, const Lanes& inv_std,
                Lanes* a, Lanes* c) {
  for (int i = 0; i < kBlock; ++i) {
    const double factor = static_cast<double>(scale[i]) * static_cast<double>(inv_std[i]);
    (*a)[i] = static_cast<float>(factor);
    (*c)[i] =
        static_cast<float>(static_cast<double>(offset[i]) - static_cast<double>(mean[i]) * factor);
  }
}

// x, scale, offset, moving mean and variance, optional residual -> y = activation(norm + residual),
// mean, variance, inverse deviation.
class BatchNormKernel : public Kernel {
 public:
  BatchNormKernel(const CpuRequest& request, const Bounds& bounds)
      : bounds_(bounds),
        has_residual_(request.num_inputs() == 6),
        loops_(NormalizationKernelsFor(request.isa)),
        threads_(request.threads()),
        view_(ViewOf(request.input(0))),
        training_(request.attributes().GetBool("training", true)),
        epsilon_(request.attributes().GetDouble("epsilon", 1e-3)) {}

  void Run(const KernelContext& context) override {
    ParallelFor(threads_, view_.groups, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) RunGroup(context, g);
    });
  }

 private:
  struct Moments {
    Sums mean{}, variance{};  // variance of the batch, not corrected
  };

  // Deviations are taken from the channel's first element, so that a large mean costs no digits.
  Moments BatchMoments(const float* x, int64_t group) const {
    Lanes shift;
    for (int i = 0; i < kBlock; ++i) {
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
    for (int i = 0; i < kBlock; ++i) {
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
    for (int i = 0; i < kBlock; ++i) {
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
// With x^ = (x - mean) * inv_std over m elements a channel: doffset = sum dy, dscale = sum dy x^,
// and dx = scale * inv_std * (dy - (doffset + x^ dscale) / m); without training the moments are
// constants: only the first term. With an activation, dy counts where that has a slope.
class BatchNormGradKernel : public Kernel {
 public:
  BatchNormGradKernel(const CpuRequest& request, const Bounds& bounds)
      : bounds_(bounds),
        has_activation_(request.num_inputs() == 6),
        loops_(NormalizationKernelsFor(request.isa)),
        threads_(request.threads()),
        view_(ViewOf(request.input(0))),
        training_(request.attributes().GetBool("training", true)) {}

  void Run(const KernelContext& context) override {
    ParallelFor(threads_, view_.groups, [&](int64_t begin, int64_t end) {
      for (int64_t g = begin; g < end; ++g) RunGroup(context, g);
    });
  }

 private:
  void RunGroup(const KernelContext& context, int64_t group) const {
    const float *x = FloatInput(context, 0), *dy = FloatInput(context, 4);
    const Lanes scale = Spread(view_, FloatInput(context, 1), group);
    const Lanes mean = Spread(view_, FloatInput(context, 2), group);
    const Lanes inv_std = Spread(view_, FloatInput(context, 3), group);
    Lanes act_a, act_c;
    if (has_activation_) {
      MakeAffine(scale, Spread(view_, FloatInput(context, 5), group), mean, inv_std, &act_a,
                 &act_c);
    }
    const ClampedAffine affine{act_a.data(), act_c.data(), bounds_.low, bounds_.high};
    const ClampedAffine* activation = has_activation_ ? &affine : nullptr;
    Sums sums{}, products{};
    for (int64_t n = 0; n < view_.batch; ++n) {
      const int64_t at = view_.Offset(n, group);
      loops_.add_gradient_sums(x + at, dy + at, view_.run, mean.data(), activation, sums.data(),
                               products.data());
    }
    Combine(view_, &sums);
    Combine(view_, &products);
    const double count = training_ ? static_cast<double>(view_.per_channel()) : HUGE_VAL;
    Lanes a, b, c;
    for (int i = 0; i < kBlock; ++i) {
      const double inverse = static_cast<double>(inv_std[i]);
      const double dscale = products[i] * inverse;
      const double factor = static_cast<double>(scale[i]) * inverse;
      const double slope = -factor * inverse * dscale / count;
      a[i] = static_cast<float>(factor);
      b[i] = static_cast<float>(slope);
      c[i] = static_cast<float>(-factor * sums[i] / count - slope * static_cast<double>(mean[i]));
      if (i >= view_.group_channels) continue;
      const int64_t channel = group * view_.group_channels + i;
      if (float* to = FloatOutput(context, 1)) to[channel] = static_cast<float>(dscale);
      if (float* to = FloatOutput(context, 2)) to[channel] = static_cast<float>(sums[i]);
    }
    if (context.outputs[0] == nullptr) return;
    for (int64_t n = 0; n < view_.batch; ++n) {
      const int64_t at = view_.Offset(n, group);
      loops_.affine_of_two(dy + at, x + at, view_.run, a.data(), b.data(), c.data(), activation,
                           FloatOutput(context, 0) + at);
    }
  }

  const Bounds bounds_;
  const bool has_activation_;
  const NormalizationKernels& loops_;
  const int threads_;
  const ChannelView view_;
  const bool training_;
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
  const absl::StatusOr<Bounds> bounds = BoundsOf(request);
  if (!bounds.ok()) return bounds.status();
  return std::make_unique<BatchNormKernel>(request, *bounds);
}

KernelOr CreateBatchNormGrad(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(5, 6, 3); !status.ok()) return status;
  if (absl::Status status = CheckChannels(request, 1, 3); !status.ok()) return status;
  if (request.input(0) != request.input(4) || request.input(0) != request.output(0)) {
    return request.Invalid("want x, dy and dx alike");
  }
  const absl::StatusOr<Bounds> bounds = BoundsOf(request);
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
