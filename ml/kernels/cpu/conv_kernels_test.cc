#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "ml/kernels/cpu/convolution_shape.h"
#include "ml/kernels/cpu/kernel_runner_testing.h"

namespace shoal::cpu {
namespace {

struct Case {
  Shape images, weights;
  std::vector<int64_t> strides = {1, 1}, pads = {0, 0, 0, 0}, dilations = {1, 1};
  int64_t group = 1;
};

const std::vector<Case>& Cases() {
  static const auto& cases = *new std::vector<Case>{
      {{2, 1, 9, 8}, {16, 1, 5, 5}, {1, 1}, {2, 2, 2, 2}},
      {{2, 3, 9, 8}, {5, 3, 3, 3}, {2, 2}, {1, 0, 1, 1}},
      {{3, 16, 6, 7}, {32, 16, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{5, 32, 8, 8}, {32, 32, 3, 3}, {1, 1}, {1, 1, 1, 1}},
      {{3, 32, 9, 6}, {16, 32, 5, 5}, {1, 1}, {2, 2, 2, 2}},
      {{2, 16, 8, 8}, {32, 16, 5, 5}, {1, 1}, {0, 1, 2, 0}},
      {{3, 16, 6, 7}, {16, 16, 1, 1}},
      {{3, 6, 9, 8}, {16, 6, 5, 5}},
      {{3, 12, 7, 8}, {32, 12, 3, 3}, {2, 2}, {1, 1, 1, 1}},
      {{2, 4, 9, 9}, {6, 2, 3, 3}, {1, 1}, {2, 2, 2, 2}, {2, 2}, 2},
      {{2, 24, 6, 6}, {24, 1, 3, 3}, {2, 2}, {0, 0, 1, 1}, {1, 1}, 24},
      {{2, 32, 6, 6}, {32, 1, 3, 3}, {1, 1}, {1, 1, 1, 1}, {1, 1}, 32},
  };
  return cases;
}

Attributes AttributesOf(const Case& c) {
  return {{"strides", c.strides}, {"pads", c.pads}, {"dilations", c.dilations}, {"group", c.group}};
}

ConvolutionShape ShapeOf(const Case& c) {
  return *MakeConvolutionShape(AttributesOf(c), c.images, c.weights);
}

Shape OutputShape(const Case& c) {
  const ConvolutionShape s = ShapeOf(c);
  return {s.batch, s.out_channels, s.out_size[0], s.out_size[1]};
}

// Calls f(index in y, index in w, index in x) for every product that the convolution adds up.
template <typename Function>
void ForEachProduct(const Case& c, Function f) {
  const ConvolutionShape s = ShapeOf(c);
  const WindowShape& w = s.window;
  const int64_t in = s.in_channels / s.group, out = s.out_channels / s.group;
  int64_t y = 0;
  for (int64_t n = 0; n < s.batch; ++n) {
    for (int64_t o = 0; o < s.out_channels; ++o) {
      for (int64_t oy = 0; oy < s.out_size[0]; ++oy) {
        for (int64_t ox = 0; ox < s.out_size[1]; ++ox, ++y) {
          for (int64_t i = 0; i < in; ++i) {
            for (int64_t ky = 0; ky < w.kernel[0]; ++ky) {
              for (int64_t kx = 0; kx < w.kernel[1]; ++kx) {
                const int64_t iy = oy * w.stride[0] - w.pad_before[0] + ky * w.dilation[0];
                const int64_t ix = ox * w.stride[1] - w.pad_before[1] + kx * w.dilation[1];
                if (iy < 0 || ix < 0 || iy >= s.in_size[0] || ix >= s.in_size[1]) continue;
                const int64_t channel = o / out * in + i;
                f(y, ((o * in + i) * w.kernel[0] + ky) * w.kernel[1] + kx,
                  ((n * s.in_channels + channel) * s.in_size[0] + iy) * s.in_size[1] + ix);
              }
            }
          }
        }
      }
    }
  }
}

std::vector<float> ToFloats(const std::vector<double>& v) { return {v.begin(), v.end()}; }

bool CanBeBlocked(const Shape& shape) { return shape.dim(1) % 16 == 0; }

Value Layouted(const Value& images, bool blocked) {
  return blocked && CanBeBlocked(images.spec.shape) ? ToBlocked(images) : images;
}

std::vector<float> PlainFloats(const Value& images) {
  return images.spec.layout == Layout::kBlocked16 ? ToPlain(images).floats : images.floats;
}

TEST(ConvTest, ForwardIsTheSumOfProductsInEitherLayout) {
  for (const Case& c : Cases()) {
    const Value x = RandomFloats(c.images, 1), w = RandomFloats(c.weights, 2, 0.1f);
    const Value bias = RandomFloats({c.weights.dim(0)}, 3);
    const Shape out = OutputShape(c);
    const int64_t pixels = out.dim(2) * out.dim(3);
    std::vector<double> want(static_cast<size_t>(out.num_elements()));
    for (size_t i = 0; i < want.size(); ++i) {
      want[i] = static_cast<double>(bias.floats[i / pixels % out.dim(1)]);
    }
    ForEachProduct(c, [&](int64_t y, int64_t k, int64_t i) {
      want[y] += static_cast<double>(w.floats[k]) * static_cast<double>(x.floats[i]);
    });
    for (const std::string activation : {"relu", "tanh"}) {
      std::vector<double> activated = want;
      for (double& v : activated) {
        v = activation == "relu" ? std::max(v, 0.0) : std::tanh(v);
      }
      for (bool blocked : {false, true}) {
        for (CpuIsa isa : AllIsas()) {
          Attributes attributes = AttributesOf(c);
          attributes.Set("activation", activation);
          const Value y_like = Layouted(RandomFloats(out, 0), blocked);
          const auto y = RunKernel("Conv", attributes, {Layouted(x, blocked), w, bias},
                                   {y_like.spec}, {2, isa});
          ASSERT_TRUE(y.ok()) << y.status();
          EXPECT_LT(ErrorToScale(PlainFloats((*y)[0]), ToFloats(activated)), 1e-5)
              << c.images.ToString() << c.weights.ToString() << activation << blocked;
        }
      }
    }
  }
}

TEST(ConvGradTest, GradientsAreThoseOfTheSumOfProductsInEitherLayout) {
  for (const Case& c : Cases()) {
    const Shape out = OutputShape(c);
    const Value x = RandomFloats(c.images, 1), w = RandomFloats(c.weights, 2);
    const Value y = RandomFloats(out, 3), dy = RandomFloats(out, 4);
    std::vector<double> dx(x.floats.size()), dw(w.floats.size()), db(out.dim(1));
    const auto dz = [&](int64_t i) {
      return y.floats[i] > 0 ? static_cast<double>(dy.floats[i]) : 0.0;
    };
    ForEachProduct(c, [&](int64_t o, int64_t k, int64_t i) {
      dx[i] += static_cast<double>(w.floats[k]) * dz(o);
      dw[k] += static_cast<double>(x.floats[i]) * dz(o);
    });
    for (int64_t i = 0; i < out.num_elements(); ++i) {
      db[i / (out.dim(2) * out.dim(3)) % out.dim(1)] += dz(i);
    }
    Attributes attributes = AttributesOf(c);
    attributes.Set("activation", std::string("relu"));
    for (bool blocked : {false, true}) {
      for (CpuIsa isa : AllIsas()) {
        const Value x_in = Layouted(x, blocked);
        const auto result = RunKernel(
            "ConvGrad", attributes, {x_in, w, Layouted(y, blocked), Layouted(dy, blocked)},
            {x_in.spec, w.spec, {DataType::kFloat32, {out.dim(1)}}}, {2, isa});
        ASSERT_TRUE(result.ok()) << result.status();
        const std::string where = c.images.ToString() + c.weights.ToString();
        EXPECT_LT(ErrorToScale(PlainFloats((*result)[0]), ToFloats(dx)), 1e-5) << where;
        EXPECT_LT(ErrorToScale((*result)[1].floats, ToFloats(dw)), 1e-5) << where;
        EXPECT_LT(ErrorToScale((*result)[2].floats, ToFloats(db)), 1e-5) << where;
      }
    }
  }
}

TEST(ConvTest, WeightsThatDoNotFitAreRefused) {
  const auto y =
      RunKernel("Conv", {}, {RandomFloats({1, 3, 8, 8}, 1), RandomFloats({4, 2, 3, 3}, 2)},
                {{DataType::kFloat32, {1, 4, 6, 6}}}, {});
  EXPECT_EQ(y.status().code(), absl::StatusCode::kInvalidArgument);
}

struct PoolCase {
  Shape images;
  std::vector<int64_t> kernel, strides, pads;
};
const std::vector<PoolCase>& PoolCases() {
  static const auto& cases = *new std::vector<PoolCase>{
      {{3, 32, 8, 6}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
      {{2, 16, 7, 9}, {2, 2}, {2, 2}, {0, 0, 0, 0}},
      {{2, 16, 7, 9}, {3, 3}, {2, 2}, {1, 1, 1, 1}},
      {{2, 3, 7, 9}, {3, 2}, {1, 2}, {0, 1, 2, 0}},
  };
  return cases;
}

// Calls f(index in y, index in x, position in the window, elements of the window inside the image).
template <typename Function>
void ForEachPooled(const PoolCase& c, const PoolShape& s, Function f) {
  for (int64_t plane = 0; plane < s.batch * s.channels; ++plane) {
    for (int64_t o = 0; o < s.OutputPixels(); ++o) {
      const int64_t top = o / s.out_size[1] * c.strides[0] - c.pads[0];
      const int64_t left = o % s.out_size[1] * c.strides[1] - c.pads[1];
      const auto inside = [](int64_t start, int64_t size, int64_t kernel) {
        return std::min(size, start + kernel) - std::max<int64_t>(start, 0);
      };
      const int64_t elements =
          inside(top, s.in_size[0], c.kernel[0]) * inside(left, s.in_size[1], c.kernel[1]);
      for (int64_t k = 0; k < c.kernel[0] * c.kernel[1]; ++k) {
        const int64_t y = top + k / c.kernel[1], x = left + k % c.kernel[1];
        if (y < 0 || x < 0 || y >= s.in_size[0] || x >= s.in_size[1]) continue;
        f(plane * s.OutputPixels() + o, plane * s.InputPixels() + y * s.in_size[1] + x, k,
          elements);
      }
    }
  }
}

struct PoolSetup {
  Attributes attributes;
  PoolShape shape;
  Shape out;
};

PoolSetup SetupOf(const PoolCase& c) {
  PoolSetup setup;
  setup.attributes = {{"kernel_shape", c.kernel}, {"strides", c.strides}, {"pads", c.pads}};
  setup.shape = *MakePoolShape(setup.attributes, c.images);
  setup.out = {setup.shape.batch, setup.shape.channels, setup.shape.out_size[0],
               setup.shape.out_size[1]};
  return setup;
}

TEST(MaxPoolTest, TheWinnerIsTheFirstLargestAndGetsTheGradient) {
  for (const PoolCase& c : PoolCases()) {
    PoolSetup setup = SetupOf(c);
    const Value x = RandomFloats(c.images, 1), dy = RandomFloats(setup.out, 2);
    for (bool relu : {false, true}) {
      std::vector<float> want_y(setup.out.num_elements(), relu ? 0.0f : -100.0f);
      std::vector<uint8_t> want_index(setup.out.num_elements(), 255);
      std::vector<int64_t> winner(setup.out.num_elements(), -1);
      ForEachPooled(c, setup.shape, [&](int64_t o, int64_t i, int64_t k, int64_t) {
        if (x.floats[i] <= want_y[o]) return;
        want_y[o] = x.floats[i];
        want_index[o] = static_cast<uint8_t>(k);
        winner[o] = i;
      });
      std::vector<float> want_dx(x.floats.size(), 0.0f);
      for (size_t o = 0; o < winner.size(); ++o) {
        if (winner[o] >= 0) want_dx[winner[o]] += dy.floats[o];
      }
      setup.attributes.Set("relu", relu);
      for (bool blocked : {false, true}) {
        if (blocked && !CanBeBlocked(c.images)) continue;
        for (CpuIsa isa : AllIsas()) {
          const Value x_in = Layouted(x, blocked), dy_in = Layouted(dy, blocked);
          const auto y =
              RunKernel("MaxPool", setup.attributes, {x_in},
                        {dy_in.spec, {DataType::kUint8, setup.out, dy_in.spec.layout}}, {2, isa});
          ASSERT_TRUE(y.ok()) << y.status();
          EXPECT_EQ(PlainFloats((*y)[0]), want_y);
          EXPECT_EQ(blocked ? ToPlain((*y)[1]).bytes : (*y)[1].bytes, want_index);
          const auto dx =
              RunKernel("MaxPoolGrad", setup.attributes, {(*y)[1], dy_in}, {x_in.spec}, {2, isa});
          ASSERT_TRUE(dx.ok()) << dx.status();
          EXPECT_LT(LargestError(PlainFloats((*dx)[0]), want_dx), 1e-6);
        }
      }
    }
  }
}

TEST(MaxPoolTest, ANanIsPassedOn) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  const auto y =
      RunKernel("MaxPool", {{"kernel_shape", std::vector<int64_t>{2, 2}}, {"relu", true}},
                {Floats({1, 1, 2, 2}, {1.0f, nan, 2.0f, 0.0f})},
                {{DataType::kFloat32, {1, 1, 1, 1}}, {DataType::kUint8, {1, 1, 1, 1}}}, {});
  ASSERT_TRUE(y.ok()) << y.status();
  EXPECT_TRUE(std::isnan((*y)[0].floats[0]));
}

TEST(AveragePoolTest, MeansCountThePaddingOnlyIfAsked) {
  for (const PoolCase& c : PoolCases()) {
    PoolSetup setup = SetupOf(c);
    const Value x = RandomFloats(c.images, 1), dy = RandomFloats(setup.out, 2);
    for (bool count_padding : {false, true}) {
      std::vector<double> want_y(setup.out.num_elements()), want_dx(x.floats.size());
      ForEachPooled(c, setup.shape, [&](int64_t o, int64_t i, int64_t, int64_t elements) {
        const double share =
            1.0 / static_cast<double>(count_padding ? c.kernel[0] * c.kernel[1] : elements);
        want_y[o] += share * static_cast<double>(x.floats[i]);
        want_dx[i] += share * static_cast<double>(dy.floats[o]);
      });
      setup.attributes.Set("count_include_pad", count_padding);
      for (bool blocked : {false, true}) {
        if (blocked && !CanBeBlocked(c.images)) continue;
        for (CpuIsa isa : AllIsas()) {
          const Value x_in = Layouted(x, blocked), dy_in = Layouted(dy, blocked);
          const auto y = RunKernel("AveragePool", setup.attributes, {x_in}, {dy_in.spec}, {2, isa});
          const auto dx =
              RunKernel("AveragePoolGrad", setup.attributes, {dy_in}, {x_in.spec}, {2, isa});
          ASSERT_TRUE(y.ok() && dx.ok()) << y.status() << dx.status();
          EXPECT_LT(LargestError(PlainFloats((*y)[0]), ToFloats(want_y)), 1e-6);
          EXPECT_LT(LargestError(PlainFloats((*dx)[0]), ToFloats(want_dx)), 1e-6);
        }
      }
    }
  }
}

TEST(ReorderLayoutTest, ThereAndBackIsTheSame) {
  const Value x = RandomFloats({2, 32, 3, 5}, 1), blocked = ToBlocked(x);
  EXPECT_EQ((*RunKernel("ReorderLayout", {}, {x}, {blocked.spec}, {2}))[0].floats, blocked.floats);
  EXPECT_EQ((*RunKernel("ReorderLayout", {}, {blocked}, {x.spec}, {2}))[0].floats, x.floats);
}

}  // namespace
}  // namespace shoal::cpu
