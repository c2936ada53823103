#include <cmath>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

const Shape kShapes[] = {{50, 7}, {50, 32}, {4, 32, 5, 3}, {4, 3, 5, 7}, {3, 16, 40, 40}};

Value Layouted(const Value& images, bool blocked) {
  const bool can = images.spec.shape.rank() == 4 && images.spec.shape.dim(1) % 16 == 0;
  return blocked && can ? ToBlocked(images) : images;
}

std::vector<float> PlainFloats(const Value& images) {
  return images.spec.layout == Layout::kBlocked16 ? ToPlain(images).floats : images.floats;
}

struct Moments {
  std::vector<double> mean, variance;
  double count;
};

size_t ChannelOf(const Shape& shape, size_t i) {
  const int64_t pixels = shape.rank() == 4 ? shape.dim(2) * shape.dim(3) : 1;
  return i / static_cast<size_t>(pixels) % static_cast<size_t>(shape.dim(1));
}

Moments ExactMoments(const Value& x) {
  const Shape& shape = x.spec.shape;
  const size_t channels = static_cast<size_t>(shape.dim(1));
  Moments m{std::vector<double>(channels), std::vector<double>(channels),
            static_cast<double>(x.floats.size()) / static_cast<double>(channels)};
  for (size_t i = 0; i < x.floats.size(); ++i) {
    m.mean[ChannelOf(shape, i)] += static_cast<double>(x.floats[i]) / m.count;
  }
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const double d = static_cast<double>(x.floats[i]) - m.mean[ChannelOf(shape, i)];
    m.variance[ChannelOf(shape, i)] += d * d / m.count;
  }
  return m;
}

std::vector<float> ToFloats(const std::vector<double>& v) { return {v.begin(), v.end()}; }

// A mean far from zero, so that lost digits show.
Value Images(const Shape& shape) {
  Value x = RandomFloats(shape, 1);
  for (float& v : x.floats) v += 20.0f;
  return x;
}

struct Parameters {
  Value scale, offset, mean, variance;
};

Parameters ParametersFor(const Shape& shape) {
  const Shape channels({shape.dim(1)});
  Parameters p{RandomFloats(channels, 2), RandomFloats(channels, 3), RandomFloats(channels, 4),
               RandomFloats(channels, 5)};
  for (float& v : p.variance.floats) v += 1.5f;
  return p;
}

TEST(BatchNormTest, TrainingNormalizesByTheBatchAndCorrectsTheVarianceItReports) {
  for (const Shape& shape : kShapes) {
    const Value x = Images(shape);
    const Parameters p = ParametersFor(shape);
    const Moments m = ExactMoments(x);
    std::vector<double> y, corrected, inv_std;
    for (double v : m.variance) {
      corrected.push_back(v * m.count / (m.count - 1.0));
      inv_std.push_back(1.0 / std::sqrt(v + 1e-3));
    }
    for (size_t i = 0; i < x.floats.size(); ++i) {
      const size_t c = ChannelOf(shape, i);
      y.push_back((static_cast<double>(x.floats[i]) - m.mean[c]) * inv_std[c] *
                      static_cast<double>(p.scale.floats[c]) +
                  static_cast<double>(p.offset.floats[c]));
    }
    for (bool blocked : {false, true}) {
      for (CpuIsa isa : AllIsas()) {
        const Value in = Layouted(x, blocked);
        const auto got = RunKernel("BatchNorm", {}, {in, p.scale, p.offset, p.mean, p.variance},
                                   {in.spec, p.scale.spec, p.scale.spec, p.scale.spec}, {2, isa});
        ASSERT_TRUE(got.ok()) << got.status();
        EXPECT_LT(LargestError(PlainFloats((*got)[0]), ToFloats(y)), 1e-5) << shape.ToString();
        EXPECT_LT(LargestError((*got)[1].floats, ToFloats(m.mean)), 1e-6);
        EXPECT_LT(LargestError((*got)[2].floats, ToFloats(corrected)), 1e-5);
        EXPECT_LT(LargestError((*got)[3].floats, ToFloats(inv_std)), 1e-5);
      }
    }
  }
}

TEST(BatchNormTest, InferenceNormalizesByTheMovingAverages) {
  const Shape shape = {4, 16, 5, 3};
  const Value x = Images(shape);
  const Parameters p = ParametersFor(shape);
  std::vector<double> y;
  for (size_t i = 0; i < x.floats.size(); ++i) {
    const size_t c = ChannelOf(shape, i);
    y.push_back(static_cast<double>(x.floats[i] - p.mean.floats[c]) /
                    std::sqrt(static_cast<double>(p.variance.floats[c]) + 0.01) *
                    static_cast<double>(p.scale.floats[c]) +
                static_cast<double>(p.offset.floats[c]));
  }
  for (CpuIsa isa : AllIsas()) {
    const auto got = RunKernel("BatchNorm", {{"training", false}, {"epsilon", 0.01}},
                               {x, p.scale, p.offset, p.mean, p.variance},
                               {x.spec, p.scale.spec, p.scale.spec, p.scale.spec}, {1, isa});
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_LT(LargestError((*got)[0].floats, ToFloats(y)), 1e-5);
    EXPECT_EQ((*got)[1].floats, p.mean.floats);
  }
}

TEST(BatchNormGradTest, GradientsGoThroughTheMomentsInTrainingOnly) {
  for (const Shape& shape : kShapes) {
    const Value x = Images(shape), dy = RandomFloats(shape, 6);
    const Parameters p = ParametersFor(shape);
    const Moments m = ExactMoments(x);
    Value mean = p.mean, inv_std = p.mean;
    for (size_t c = 0; c < m.mean.size(); ++c) {
      mean.floats[c] = static_cast<float>(m.mean[c]);
      inv_std.floats[c] = static_cast<float>(1.0 / std::sqrt(m.variance[c] + 1e-3));
    }
    std::vector<double> normal, dscale(m.mean.size()), doffset(m.mean.size());
    for (size_t i = 0; i < x.floats.size(); ++i) {
      const size_t c = ChannelOf(shape, i);
      normal.push_back((static_cast<double>(x.floats[i]) - static_cast<double>(mean.floats[c])) *
                       static_cast<double>(inv_std.floats[c]));
      dscale[c] += static_cast<double>(dy.floats[i]) * normal[i];
      doffset[c] += static_cast<double>(dy.floats[i]);
    }
    for (bool training : {false, true}) {
      std::vector<double> dx;
      for (size_t i = 0; i < x.floats.size(); ++i) {
        const size_t c = ChannelOf(shape, i);
        const double through = training ? (doffset[c] + normal[i] * dscale[c]) / m.count : 0.0;
        dx.push_back((static_cast<double>(dy.floats[i]) - through) *
                     static_cast<double>(p.scale.floats[c] * inv_std.floats[c]));
      }
      for (bool blocked : {false, true}) {
        for (CpuIsa isa : AllIsas()) {
          const Value in = Layouted(x, blocked);
          const auto got = RunKernel("BatchNormGrad", {{"training", training}},
                                     {in, p.scale, mean, inv_std, Layouted(dy, blocked)},
                                     {in.spec, p.scale.spec, p.scale.spec}, {2, isa});
          ASSERT_TRUE(got.ok()) << got.status();
          EXPECT_LT(LargestError(PlainFloats((*got)[0]), ToFloats(dx)), 1e-5) << shape.ToString();
          EXPECT_LT(LargestError((*got)[1].floats, ToFloats(dscale)), 1e-4);
          EXPECT_LT(LargestError((*got)[2].floats, ToFloats(doffset)), 1e-5);
        }
      }
    }
  }
}

}  // namespace
}  // namespace shoal::cpu
