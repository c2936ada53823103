#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "ml/kernels/reference/reference_op.h"

namespace shoal::reference {
namespace {

// Calls visit(x index, w index, y index) for every product of a convolution.
template <typename Visit>
void ForEachProduct(const Attributes& attributes, const Shape& x_shape, const Shape& w_shape,
                    const Shape& y_shape, const Visit& visit) {
  const Window window = ConvolutionWindow(attributes, w_shape);
  const int64_t group_outputs = w_shape.dim(0) / attributes.GetInt("group", 1);
  const int64_t taps = w_shape.dim(1) * w_shape.dim(2) * w_shape.dim(3);
  for (int64_t y = 0; y < y_shape.num_elements(); ++y) {
    const int64_t ox = y % y_shape.dim(3);
    const int64_t oy = y / y_shape.dim(3) % y_shape.dim(2);
    const int64_t o = y / (y_shape.dim(2) * y_shape.dim(3)) % y_shape.dim(1);
    const int64_t image = y / (y_shape.dim(1) * y_shape.dim(2) * y_shape.dim(3));
    for (int64_t tap = 0; tap < taps; ++tap) {
      const int64_t kx = tap % w_shape.dim(3);
      const int64_t ky = tap / w_shape.dim(3) % w_shape.dim(2);
      const int64_t c = tap / (w_shape.dim(2) * w_shape.dim(3));
      const int64_t row = window.Row(oy, ky), column = window.Column(ox, kx);
      if (row < 0 || row >= x_shape.dim(2) || column < 0 || column >= x_shape.dim(3)) continue;
      const int64_t channel = o / group_outputs * w_shape.dim(1) + c;
      visit(At(x_shape, image, channel, row, column), o * taps + tap, y);
    }
  }
}

template <typename T>
void CopyRounded(const std::vector<double>& from, T* to) {
  for (size_t i = 0; i < from.size(); ++i) to[i] = static_cast<T>(from[i]);
}

std::vector<double> Zeros(const Shape& shape) {
  return std::vector<double>(static_cast<size_t>(shape.num_elements()));
}

// Computes a convolution without activation; bias may be null.
template <typename T>
void Convolve(const Call& call, const T* x, const T* w, const T* bias, const Shape& y_shape, T* y) {
  std::vector<double> sums = Zeros(y_shape);
  ForEachProduct(call.attributes, call.InShape(0), call.InShape(1), y_shape,
                 [&](int64_t xi, int64_t wi, int64_t yi) {
                   sums[static_cast<size_t>(yi)] += static_cast<double>(x[xi]) * w[wi];
                 });
  const int64_t image = y_shape.dim(2) * y_shape.dim(3);
  for (size_t i = 0; bias != nullptr && i < sums.size(); ++i) {
    sums[i] += bias[static_cast<int64_t>(i) / image % y_shape.dim(1)];
  }
  CopyRounded(sums, y);
}

// Computes gradients from that before the activation; outputs may be null.
template <typename T>
void ConvolveGradient(const Call& call, const T* x, const T* w, const Shape& y_shape, const T* dz,
                      T* dx, T* dw, T* dbias) {
  std::vector<double> dx_sums = Zeros(call.InShape(0)), dw_sums = Zeros(call.InShape(1));
  ForEachProduct(call.attributes, call.InShape(0), call.InShape(1), y_shape,
                 [&](int64_t xi, int64_t wi, int64_t yi) {
                   dx_sums[static_cast<size_t>(xi)] += static_cast<double>(w[wi]) * dz[yi];
                   dw_sums[static_cast<size_t>(wi)] += static_cast<double>(x[xi]) * dz[yi];
                 });
  if (dx != nullptr) CopyRounded(dx_sums, dx);
  if (dw != nullptr) CopyRounded(dw_sums, dw);
  if (dbias == nullptr) return;
  std::vector<double> sums(static_cast<size_t>(y_shape.dim(1)));
  const int64_t image = y_shape.dim(2) * y_shape.dim(3);
  for (int64_t i = 0; i < y_shape.num_elements(); ++i) {
    sums[static_cast<size_t>(i / image % y_shape.dim(1))] += dz[i];
  }
  CopyRounded(sums, dbias);
}

// x, w, optional bias -> y
template <typename T>
void Conv(const Call& call) {
  T* y = call.Out<T>(0);
  const Shape& shape = call.OutShape(0);
  Convolve(call, call.In<T>(0), call.In<T>(1), call.inputs.size() > 2 ? call.In<T>(2) : nullptr,
           shape, y);
  const std::string activation = call.attributes.GetString("activation", "none");
  for (int64_t i = 0; i < shape.num_elements(); ++i) {
    y[i] = static_cast<T>(Activate(activation, y[i]));
  }
}

// x, w, y, dy -> dx, dw, dbias
template <typename T>
void ConvGrad(const Call& call) {
  const Shape& shape = call.InShape(2);
  const std::string activation = call.attributes.GetString("activation", "none");
  std::vector<T> dz(static_cast<size_t>(shape.num_elements()));
  for (size_t i = 0; i < dz.size(); ++i) {
    dz[i] = static_cast<T>(ActivationSlope(activation, call.In<T>(2)[i]) * call.In<T>(3)[i]);
  }
  ConvolveGradient(call, call.In<T>(0), call.In<T>(1), shape, dz.data(), call.Out<T>(0),
                   call.Out<T>(1), call.outputs.size() > 2 ? call.Out<T>(2) : nullptr);
}

// The shape of the convolution inside a fused convolution and pool.
Shape ConvolutionShape(const Call& call) {
  const Shape& x = call.InShape(0);
  const Shape& w = call.InShape(1);
  const Window window = ConvolutionWindow(call.attributes, w);
  const auto pads = call.attributes.GetInts("pads", {0, 0, 0, 0});
  Shape shape({x.dim(0), w.dim(0), 0, 0});
  for (int k = 0; k < 2; ++k) {
    const int64_t reach = (window.kernel[k] - 1) * window.dilations[k] + 1;
    const int64_t padded =
        x.dim(2 + k) + pads[static_cast<size_t>(k)] + pads[static_cast<size_t>(k) + 2];
    shape.set_dim(2 + k, (padded - reach) / window.strides[k] + 1);
  }
  return shape;
}

// x, w, bias -> y, index
template <typename T>
void ConvPool(const Call& call) {
  const Shape shape = ConvolutionShape(call);
  std::vector<T> z(static_cast<size_t>(shape.num_elements()));
  Convolve(call, call.In<T>(0), call.In<T>(1), call.inputs.size() > 2 ? call.In<T>(2) : nullptr,
           shape, z.data());
  PoolMax(PoolWindow(call.attributes, "pool_"), call.attributes.GetBool("relu", false), shape,
          z.data(), call.OutShape(0), call.Out<T>(0), call.Out<uint8_t>(1));
}

// x, w, index, dy -> dx, dw, dbias
template <typename T>
void ConvPoolGrad(const Call& call) {
  const Shape shape = ConvolutionShape(call);
  std::vector<T> dz(static_cast<size_t>(shape.num_elements()));
  PoolMaxGradient(PoolWindow(call.attributes, "pool_"), call.InShape(3), call.In<uint8_t>(2),
                  call.In<T>(3), shape, dz.data());
  ConvolveGradient(call, call.In<T>(0), call.In<T>(1), shape, dz.data(), call.Out<T>(0),
                   call.Out<T>(1), call.outputs.size() > 2 ? call.Out<T>(2) : nullptr);
}

// The op BatchNormGrad.
template <typename T>
void BatchNormGradient(const Call& call) {
  for (const Op& op : NormalizationOps()) {
    if (op.name == "BatchNormGrad") (std::is_same_v<T, float> ? op.float32 : op.float64)(call);
  }
}

// x, w, norm's x, scale, mean, inv_std, dy (, offset with an activation) -> dx, dw, dscale, doffset
template <typename T>
void ConvBatchNormGrad(const Call& call) {
  const TensorSpec& middle = call.inputs[2];
  std::vector<T> dz(static_cast<size_t>(middle.shape.num_elements()));
  std::vector<TensorSpec> inputs = {middle, call.inputs[3], call.inputs[4], call.inputs[5],
                                    call.inputs[6]};
  std::vector<const void*> values(call.context.inputs + 2, call.context.inputs + 7);
  if (call.inputs.size() > 7) {
    inputs.push_back(call.inputs[7]);
    values.push_back(call.context.inputs[7]);
  }
  const std::vector<TensorSpec> outputs = {middle, call.outputs[2], call.outputs[3]};
  void* const results[] = {dz.data(), call.context.outputs[2], call.context.outputs[3]};
  KernelContext context;
  context.inputs = values.data();
  context.outputs = results;
  BatchNormGradient<T>(Call{call.attributes, inputs, outputs, context});
  ConvolveGradient(call, call.In<T>(0), call.In<T>(1), middle.shape, dz.data(), call.Out<T>(0),
                   call.Out<T>(1), static_cast<T*>(nullptr));
}

// x, w [in, out / group, height, width], optional bias -> y: each product of the convolution from y
// to x is added to y.
template <typename T>
void ConvTranspose(const Call& call) {
  const T *x = call.In<T>(0), *w = call.In<T>(1);
  const Shape& shape = call.OutShape(0);
  std::vector<double> sums = Zeros(shape);
  ForEachProduct(call.attributes, shape, call.InShape(1), call.InShape(0),
                 [&](int64_t yi, int64_t wi, int64_t xi) {
                   sums[static_cast<size_t>(yi)] += static_cast<double>(x[xi]) * w[wi];
                 });
  const int64_t image = shape.dim(2) * shape.dim(3);
  for (size_t i = 0; call.inputs.size() > 2 && i < sums.size(); ++i) {
    sums[i] += call.In<T>(2)[static_cast<int64_t>(i) / image % shape.dim(1)];
  }
  CopyRounded(sums, call.Out<T>(0));
}

constexpr Op kOps[] = {
    {"Conv", &Conv<float>, &Conv<double>},
    {"ConvBatchNormGrad", &ConvBatchNormGrad<float>, &ConvBatchNormGrad<double>},
    {"ConvGrad", &ConvGrad<float>, &ConvGrad<double>},
    {"ConvPool", &ConvPool<float>, &ConvPool<double>},
    {"ConvPoolGrad", &ConvPoolGrad<float>, &ConvPoolGrad<double>},
    {"ConvTranspose", &ConvTranspose<float>, &ConvTranspose<double>},
};

}  // namespace

absl::Span<const Op> ConvolutionOps() { return kOps; }

}  // namespace shoal::reference
