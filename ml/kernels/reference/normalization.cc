#include <cmath>
#include <vector>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

// x[batch, channels] or [batch, channels, height, width], normalized over all but the channels.
struct Channels {
  explicit Channels(const Shape& shape)
      : count(shape.dim(1)),
        inner(shape.rank() == 4 ? shape.dim(2) * shape.dim(3) : 1),
        elements(shape.num_elements()),
        per_channel(static_cast<double>(elements) / static_cast<double>(count)) {}

  size_t Of(int64_t index) const { return static_cast<size_t>(index / inner % count); }

  int64_t count, inner, elements;
  double per_channel;
};

struct Moments {
  std::vector<double> mean, variance;  // of the batch: not corrected
};

template <typename T>
Moments BatchMoments(const Channels& channels, const T* x) {
  Moments moments{std::vector<double>(static_cast<size_t>(channels.count)),
                  std::vector<double>(static_cast<size_t>(channels.count))};
  for (int64_t i = 0; i < channels.elements; ++i) {
    moments.mean[channels.Of(i)] += x[i] / channels.per_channel;
  }
  for (int64_t i = 0; i < channels.elements; ++i) {
    const double difference = x[i] - moments.mean[channels.Of(i)];
    moments.variance[channels.Of(i)] += difference * difference / channels.per_channel;
  }
  return moments;
}

template <typename T>
void Set(const Call& call, size_t output, size_t channel, double value) {
  if (output >= call.outputs.size()) return;
  if (T* out = call.Out<T>(output)) out[channel] = static_cast<T>(value);
}

// x, scale, offset, moving_mean, moving_variance -> y, batch_mean, batch_variance (corrected),
// inv_std
template <typename T>
void BatchNorm(const Call& call) {
  const Channels channels(call.InShape(0));
  const double epsilon = call.attributes.GetDouble("epsilon", 1e-3);
  const bool training = call.attributes.GetBool("training", true);
  Moments moments = BatchMoments(channels, call.In<T>(0));
  const double n = channels.per_channel;
  const double correction = n > 1 ? n / (n - 1) : 1;
  std::vector<double> inv_std(moments.mean.size());
  for (size_t c = 0; c < inv_std.size(); ++c) {
    if (!training) {
      moments.mean[c] = call.In<T>(3)[c];
      moments.variance[c] = call.In<T>(4)[c];
    }
    inv_std[c] = 1 / std::sqrt(moments.variance[c] + epsilon);
    Set<T>(call, 1, c, moments.mean[c]);
    Set<T>(call, 2, c, moments.variance[c] * (training ? correction : 1));
    Set<T>(call, 3, c, inv_std[c]);
  }
  for (int64_t i = 0; i < channels.elements; ++i) {
    const size_t c = channels.Of(i);
    const double normal = (call.In<T>(0)[i] - moments.mean[c]) * inv_std[c];
    if (T* y = call.Out<T>(0)) y[i] = static_cast<T>(normal * call.In<T>(1)[c] + call.In<T>(2)[c]);
  }
}

// x, scale, batch_mean, inv_std, dy -> dx, dscale, doffset
template <typename T>
void BatchNormGrad(const Call& call) {
  const Channels channels(call.InShape(0));
  const T *x = call.In<T>(0), *dy = call.In<T>(4);
  const auto normal = [&](int64_t i) {
    const size_t c = channels.Of(i);
    return (static_cast<double>(x[i]) - call.In<T>(2)[c]) * call.In<T>(3)[c];
  };
  std::vector<double> dscale(static_cast<size_t>(channels.count)), doffset(dscale.size());
  for (int64_t i = 0; i < channels.elements; ++i) {
    dscale[channels.Of(i)] += dy[i] * normal(i);
    doffset[channels.Of(i)] += dy[i];
  }
  for (size_t c = 0; c < dscale.size(); ++c) {
    Set<T>(call, 1, c, dscale[c]);
    Set<T>(call, 2, c, doffset[c]);
  }
  T* dx = call.Out<T>(0);
  if (dx == nullptr) return;
  const bool training = call.attributes.GetBool("training", true);
  for (int64_t i = 0; i < channels.elements; ++i) {
    const size_t c = channels.Of(i);
    const double through_moments =
        training ? (doffset[c] + normal(i) * dscale[c]) / channels.per_channel : 0;
    dx[i] = static_cast<T>((dy[i] - through_moments) * call.In<T>(1)[c] * call.In<T>(3)[c]);
  }
}

constexpr Op kOps[] = {
    {"BatchNorm", &BatchNorm<float>, &BatchNorm<double>},
    {"BatchNormGrad", &BatchNormGrad<float>, &BatchNormGrad<double>},
};

}  // namespace

absl::Span<const Op> NormalizationOps() { return kOps; }

}  // namespace shoal::reference
