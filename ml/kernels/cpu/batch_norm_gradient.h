// Helpers that the kernels of batch normalization share. They see images as groups of 16 channels,
// or of one channel in the plain layout, and compute the gradient in two passes, of which the
// second can run image by image.
#ifndef SHOAL_ML_KERNELS_CPU_BATCH_NORM_GRADIENT_H_
#define SHOAL_ML_KERNELS_CPU_BATCH_NORM_GRADIENT_H_

#include <array>
#include <cstdint>

#include "absl/status/statusor.h"

#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/simd/normalization_kernels.h"

namespace shoal::cpu {

inline constexpr int kChannelBlock = 16;

// Images as floats [batch][groups][run]. In the blocked layout a group is 16 channels, and element
// e of a run belongs to channel e % 16 of the group. In the plain layout a group is one channel.
// All counts are in floats.
struct ChannelView {
  int64_t batch, groups, run, group_channels;

  static ChannelView Of(const TensorSpec& images);
  int64_t per_channel() const { return batch * (group_channels == 1 ? run : run / kChannelBlock); }
  int64_t Offset(int64_t image, int64_t group) const { return (image * groups + group) * run; }
};

// One value for each of a group's 16 lanes.
using Lanes = std::array<float, kChannelBlock>;
using LaneSums = std::array<double, kChannelBlock>;

// Returns the values of a group's channels; the value of a single channel is repeated in all lanes.
Lanes Spread(const ChannelView& view, const float* values, int64_t group);

// If all lanes belong to one channel, replaces each lane's sum by the sum of all lanes.
void Combine(const ChannelView& view, LaneSums* sums);

// The bounds to which an activation clamps its input.
struct Bounds {
  float low, high;
};

// Returns the bounds of the attribute `activation`: none, relu or relu6.
absl::StatusOr<Bounds> ComputeBounds(const CpuRequest& request);

// Computes a and c of y = a * x + c for a group, from the moments rounded to float, so that the
// forward and the backward pass use the same values.
void MakeAffine(const Lanes& scale, const Lanes& offset, const Lanes& mean, const Lanes& inv_std,
                Lanes* a, Lanes* c);

// Computes the gradient of batch normalization. With x^ = (x - mean) * inv_std and m elements per
// channel: doffset = sum dy, dscale = sum dy x^, and dx = scale * inv_std * (dy - (doffset + x^
// dscale) / m). In inference the moments are constants, and dx = scale * inv_std * dy. With an
// activation, dy is 0 where the activation clamps. Thread-safe.
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
    float* dscale;        // null if not needed, as is doffset
    float* doffset;
  };
  // The coefficients of dx = a * dz + b * x + c for a group, where dz is dy times the slope of the
  // activation, and those of the activation's input activation_a * x + activation_c.
  struct Coefficients {
    Lanes a, b, c, activation_a, activation_c;
  };

  const ChannelView& view() const { return view_; }
  // The first pass: computes dscale and doffset of a group over all images, and the coefficients
  // for the second pass.
  void Sum(const Buffers& buffers, int64_t group, Coefficients* coefficients) const;
  // The second pass: writes dx for the group of one image, view().run floats.
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
