#include "ml/kernels/cpu/batch_norm_gradient.h"

#include <cmath>

namespace shoal::cpu {

ChannelView ChannelView::Of(const TensorSpec& images) {
  const int64_t batch = images.shape.dim(0), channels = images.shape.dim(1);
  const int64_t pixels = images.shape.rank() == 4 ? images.shape.dim(2) * images.shape.dim(3) : 1;
  // A row of a matrix is blocks of one pixel each.
  const bool blocked =
      images.layout == Layout::kBlocked16 || (pixels == 1 && channels % kChannelBlock == 0);
  if (blocked) return {batch, channels / kChannelBlock, pixels * kChannelBlock, kChannelBlock};
  return {batch, channels, pixels, 1};
}

Lanes Spread(const ChannelView& view, const float* values, int64_t group) {
  Lanes lanes;
  for (int i = 0; i < kChannelBlock; ++i) {
    lanes[i] = values[group * view.group_channels + (view.group_channels == 1 ? 0 : i)];
  }
  return lanes;
}

void Combine(const ChannelView& view, LaneSums* sums) {
  if (view.group_channels != 1) return;
  double total = 0.0;
  for (double sum : *sums) total += sum;
  sums->fill(total);
}

absl::StatusOr<Bounds> ComputeBounds(const CpuRequest& request) {
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

void MakeAffine(const Lanes& scale, const Lanes& offset, const Lanes& mean, const Lanes& inv_std,
                Lanes* a, Lanes* c) {
  for (int i = 0; i < kChannelBlock; ++i) {
    const double factor = static_cast<double>(scale[i]) * static_cast<double>(inv_std[i]);
    (*a)[i] = static_cast<float>(factor);
    (*c)[i] =
        static_cast<float>(static_cast<double>(offset[i]) - static_cast<double>(mean[i]) * factor);
  }
}

BatchNormGradient::BatchNormGradient(const CpuRequest& request, const TensorSpec& x,
                                     const Bounds& bounds)
    : bounds_(bounds),
      loops_(NormalizationKernelsFor(request.isa)),
      view_(ChannelView::Of(x)),
      training_(request.attributes().GetBool("training", true)) {}

void BatchNormGradient::Sum(const Buffers& buffers, int64_t group, Coefficients* k) const {
  const Lanes scale = Spread(view_, buffers.scale, group);
  const Lanes mean = Spread(view_, buffers.mean, group);
  const Lanes inv_std = Spread(view_, buffers.inv_std, group);
  if (buffers.offset != nullptr) {
    MakeAffine(scale, Spread(view_, buffers.offset, group), mean, inv_std, &k->activation_a,
               &k->activation_c);
  }
  const ClampedAffine affine{k->activation_a.data(), k->activation_c.data(), bounds_.low,
                             bounds_.high};
  LaneSums sums{}, products{};
  for (int64_t n = 0; n < view_.batch; ++n) {
    const int64_t at = view_.Offset(n, group);
    loops_.add_gradient_sums(buffers.x + at, buffers.dy + at, view_.run, mean.data(),
                             buffers.offset != nullptr ? &affine : nullptr, sums.data(),
                             products.data());
  }
  Combine(view_, &sums);
  Combine(view_, &products);
  const double count = training_ ? static_cast<double>(view_.per_channel()) : HUGE_VAL;
  for (int i = 0; i < kChannelBlock; ++i) {
    const double inverse = static_cast<double>(inv_std[i]);
    const double dscale = products[i] * inverse;
    const double factor = static_cast<double>(scale[i]) * inverse;
    const double slope = -factor * inverse * dscale / count;
    k->a[i] = static_cast<float>(factor);
    k->b[i] = static_cast<float>(slope);
    k->c[i] = static_cast<float>(-factor * sums[i] / count - slope * static_cast<double>(mean[i]));
    if (i >= view_.group_channels) continue;
    const int64_t channel = group * view_.group_channels + i;
    if (buffers.dscale != nullptr) buffers.dscale[channel] = static_cast<float>(dscale);
    if (buffers.doffset != nullptr) buffers.doffset[channel] = static_cast<float>(sums[i]);
  }
}

void BatchNormGradient::Apply(const Buffers& buffers, const Coefficients& k, int64_t image,
                              int64_t group, float* dx) const {
  const ClampedAffine affine{k.activation_a.data(), k.activation_c.data(), bounds_.low,
                             bounds_.high};
  const int64_t at = view_.Offset(image, group);
  loops_.affine_of_two(buffers.dy + at, buffers.x + at, view_.run, k.a.data(), k.b.data(),
                       k.c.data(), buffers.offset != nullptr ? &affine : nullptr, dx);
}

}  // namespace shoal::cpu
