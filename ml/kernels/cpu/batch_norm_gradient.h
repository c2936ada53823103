// Helpers that the kernels of batch normalization share: images as groups of 16 channels (or of
// one, in plain order), and the gradient in two passes, so that the second can run image by image.
#ifndef SHOAL_ML_KERNELS_CPU_BATCH_NORM_GRADIENT_H_
#define SHOAL_ML_KERNELS_CPU_BATCH_NORM_GRADIENT_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/simd/normalization_kernels.h"

namespace shoal::cpu {

inline constexpr int kChannelBlock = 16;

// [batch][groups][run] floats; a group is a block of 16 channels, whose element e belongs to
// channel e % 16, or one channel.
struct ChannelView {
  int64_t batch, groups, run, group_channels;

  static ChannelView Of(const TensorSpec& images);
  int64_t per_channel() const { return batch * (group_channels == 1 ? run : run / kChannelBlock); }
  int64_t Offset(int64_t image, int64_t group) const { return (image * groups + group) * run; }
};

// One value for each of a group's 16 lanes.
using Lanes = std::array<float, kChannelBlock>;
using LaneSums = std::array<double, kChannelBlock>;

// The channels of a group, repeated if it is one.
Lanes Spread(const ChannelView& view, const float* values, int64_t group);

// Sums of lanes that belong to one channel are added up.
void Combine(const ChannelView& view, LaneSums* sums);

// Bounds between which an activation is the identity; outside, the nearest bound.
struct Bounds {
  float low, high;
};

// The activation named by the attribute: none, relu or relu6.
absl::StatusOr<Bounds> BoundsOf(const CpuRequest& request);

// y = a * x + c of a group. From the rounded moments, so that forward and backward see the same.
void MakeAffine(const Lanes& scale, const Lanes& offset, const Lanes& mean, const Lanes& inv_std,
                Lanes* a, Lanes* c);

// The gradient. Let x^ = (x - mean) * inv_std over m elements a channel; then doffset = sum dy,
// dscale = sum dy x^, and dx = scale * inv_std * (dy - (doffset + x^ dscale) / m); without training
// the moments are constants: only the first term. With an activation, dy counts where that has a
// slope. Thread-safe.
class BatchNormGradient {
 public:
  BatchNormGradient(const CpuRequest& request, const TensorSpec& x, const Bounds& bounds);

  struct Buffers {
    const float* x;
    const float* dy;
    const float* scale;
    const float* mean;
    const float* inv_std;
    const float* offset;  // null without an activation
    float* dscale;        // null: not wanted, as doffset
    float* doffset;
  };
  // dx = a * dz + b * x + c of a group, and the activation that dz is behind.
  struct Coefficients {
    Lanes a, b, c, activation_a, activation_c;
  };

  const ChannelView& view() const { return view_; }
  // The first pass, over all images of a group: dscale, doffset and what the second one needs.
  void Sum(const Buffers& buffers, int64_t group, Coefficients* coefficients) const;
  // The second: writes one image's dx of the group, view().run floats.
  void Apply(const Buffers& buffers, const Coefficients& coefficients, int64_t image, int64_t group,
             float* dx) const;

 private:
  const Bounds bounds_;
  const NormalizationKernels& loops_;
  const ChannelView view_;
  const bool training_;
};

}  // namespace shoal::cpu

#endif  // SHOAL_ML_KERNELS_CPU_BATCH_NORM_GRADIENT_H_
