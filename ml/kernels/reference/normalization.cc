#include <cmath>
#include <string>
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
  std::vector<double> mean, variance;  // those of the batch, not corrected
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
// inv_std. Fused: an input 5 is added, then the activation applied.
template <typename T>
void BatchNorm(const Call& call) {
  const Channels channels(call.InShape(0));
  const double epsilon = call.attributes.GetDouble("epsilon", 1e-3);
  const bool training = call.attributes.GetBool("training", true);
  const std::string activation = call.attributes.GetString("activation", "none");
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
    double z = normal * call.In<T>(1)[c] + call.In<T>(2)[c];
    if (call.inputs.size() > 5) z += call.In<T>(5)[i];
    if (T* y = call.Out<T>(0)) y[i] = static_cast<T>(Activate(activation, z));
  }
}

// x, scale, batch_mean, inv_std, dy -> dx, dscale, doffset. Fused with an activation: input 5 is
// the offset, for the activation's slope.
template <typename T>
void BatchNormGrad(const Call& call) {
  const Channels channels(call.InShape(0));
  const T* x = call.In<T>(0);
  const std::string activation = call.attributes.GetString("activation", "none");
  const auto normal = [&](int64_t i) {
    const size_t c = channels.Of(i);
    return (static_cast<double>(x[i]) - call.In<T>(2)[c]) * call.In<T>(3)[c];
  };
  std::vector<double> dy(call.In<T>(4), call.In<T>(4) + channels.elements);
  for (size_t i = 0; call.inputs.size() > 5 && i < dy.size(); ++i) {
    const size_t c = channels.Of(static_cast<int64_t>(i));
    const double z = normal(static_cast<int64_t>(i)) * call.In<T>(1)[c] + call.In<T>(5)[c];
    dy[i] *= ActivationSlope(activation, Activate(activation, z));
  }
  std::vector<double> dscale(static_cast<size_t>(channels.count)), doffset(dscale.size());
  for (int64_t i = 0; i < channels.elements; ++i) {
    dscale[channels.Of(i)] += dy[static_cast<size_t>(i)] * normal(i);
    doffset[channels.Of(i)] += dy[static_cast<size_t>(i)];
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
    dx[i] = static_cast<T>((dy[static_cast<size_t>(i)] - through_moments) * call.In<T>(1)[c] *
                           call.In<T>(3)[c]);
  }
}

// x, scale, offset -> y, mean and inv_std of each row
template <typename T>
void LayerNorm(const Call& call) {
  const int64_t n = call.InShape(1).num_elements();
  const double epsilon = call.attributes.GetDouble("epsilon", 1e-5);
  for (int64_t row = 0; row < call.InShape(0).num_elements() / n; ++row) {
    const T* x = call.In<T>(0) + row * n;
    double mean = 0, variance = 0;
    for (int64_t i = 0; i < n; ++i) mean += x[i] / static_cast<double>(n);
    for (int64_t i = 0; i < n; ++i) {
      variance += (x[i] - mean) * (x[i] - mean) / static_cast<double>(n);
    }
    const double inv_std = 1 / std::sqrt(variance + epsilon);
    Set<T>(call, 1, static_cast<size_t>(row), mean);
    Set<T>(call, 2, static_cast<size_t>(row), inv_std);
    for (int64_t i = 0; call.Out<T>(0) != nullptr && i < n; ++i) {
      call.Out<T>(0)[row * n + i] =
          static_cast<T>((x[i] - mean) * inv_std * call.In<T>(1)[i] + call.In<T>(2)[i]);
    }
  }
}

// x, scale, mean, inv_std, dy -> dx, dscale, doffset
template <typename T>
void LayerNormGrad(const Call& call) {
  const int64_t n = call.InShape(1).num_elements();
  std::vector<double> dscale(static_cast<size_t>(n)), doffset(dscale.size());
  for (int64_t row = 0; row < call.InShape(0).num_elements() / n; ++row) {
    const T *x = call.In<T>(0) + row * n, *dy = call.In<T>(4) + row * n;
    const double mean = call.In<T>(2)[row], inv_std = call.In<T>(3)[row];
    double sum = 0, product = 0;
    for (int64_t i = 0; i < n; ++i) {
      const double normal = (x[i] - mean) * inv_std;
      dscale[static_cast<size_t>(i)] += dy[i] * normal;
      doffset[static_cast<size_t>(i)] += dy[i];
      sum += static_cast<double>(dy[i]) * call.In<T>(1)[i] / static_cast<double>(n);
      product += dy[i] * normal * call.In<T>(1)[i] / static_cast<double>(n);
    }
    for (int64_t i = 0; call.Out<T>(0) != nullptr && i < n; ++i) {
      const double normal = (x[i] - mean) * inv_std;
      const double g = static_cast<double>(dy[i]) * call.In<T>(1)[i];
      call.Out<T>(0)[row * n + i] = static_cast<T>(inv_std * (g - sum - normal * product));
    }
  }
  for (size_t i = 0; i < dscale.size(); ++i) {
    Set<T>(call, 1, i, dscale[i]);
    Set<T>(call, 2, i, doffset[i]);
  }
}

// TensorFlow's and AlexNet's: the sum is not divided by the window's size.
struct LocalResponse {
  explicit LocalResponse(const Call& call)
      : shape(call.InShape(0)),
        radius(call.attributes.GetInt("depth_radius", 5)),
        bias(call.attributes.GetDouble("bias", 1)),
        alpha(call.attributes.GetDouble("alpha", 1)),
        beta(call.attributes.GetDouble("beta", 0.5)) {}

  int64_t ChannelOf(int64_t i) const { return i / Pixels() % shape.dim(1); }
  int64_t Pixels() const { return shape.dim(2) * shape.dim(3); }

  // Calls visit(element) for each channel in the window around element i.
  template <typename Visit>
  void ForEachNeighbour(int64_t i, const Visit& visit) const {
    for (int64_t c = ChannelOf(i) - radius; c <= ChannelOf(i) + radius; ++c) {
      if (c >= 0 && c < shape.dim(1)) visit(i + (c - ChannelOf(i)) * Pixels());
    }
  }
  template <typename T>
  double Scale(const T* x, int64_t i) const {
    double sum = 0;
    ForEachNeighbour(i, [&](int64_t k) { sum += static_cast<double>(x[k]) * x[k]; });
    return bias + alpha * sum;
  }

  const Shape& shape;
  int64_t radius;
  double bias, alpha, beta;
};

template <typename T>
void LocalResponseNorm(const Call& call) {
  const LocalResponse norm(call);
  const T* x = call.In<T>(0);
  for (int64_t i = 0; i < norm.shape.num_elements(); ++i) {
    call.Out<T>(0)[i] = static_cast<T>(x[i] / std::pow(norm.Scale(x, i), norm.beta));
  }
}

// x, y, dy -> dx
template <typename T>
void LocalResponseNormGrad(const Call& call) {
  const LocalResponse norm(call);
  const T *x = call.In<T>(0), *y = call.In<T>(1), *dy = call.In<T>(2);
  for (int64_t i = 0; i < norm.shape.num_elements(); ++i) {
    double sum = 0;
    norm.ForEachNeighbour(
        i, [&](int64_t k) { sum += static_cast<double>(dy[k]) * y[k] / norm.Scale(x, k); });
    call.Out<T>(0)[i] = static_cast<T>(dy[i] / std::pow(norm.Scale(x, i), norm.beta) -
                                       2 * norm.alpha * norm.beta * x[i] * sum);
  }
}

constexpr Op kOps[] = {
    {"BatchNorm", &BatchNorm<float>, &BatchNorm<double>},
    {"BatchNormGrad", &BatchNormGrad<float>, &BatchNormGrad<double>},
    {"LayerNorm", &LayerNorm<float>, &LayerNorm<double>},
    {"LayerNormGrad", &LayerNormGrad<float>, &LayerNormGrad<double>},
    {"LocalResponseNorm", &LocalResponseNorm<float>, &LocalResponseNorm<double>},
    {"LocalResponseNormGrad", &LocalResponseNormGrad<float>, &LocalResponseNormGrad<double>},
};

}  // namespace

absl::Span<const Op> NormalizationOps() { return kOps; }

}  // namespace shoal::reference
