#include "ml/kernels/reference/reference_op.h"

#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"

namespace shoal::reference {

int64_t BroadcastIndex(const Shape& from, const Shape& to, int64_t index) {
  int64_t result = 0;
  int64_t stride = 1;
  int d = from.rank() - 1;
  for (int k = to.rank() - 1; k >= 0 && d >= 0; --k, --d) {
    const int64_t position = index % to.dim(k);
    index /= to.dim(k);
    if (from.dim(d) != 1) result += position * stride;
    stride *= from.dim(d);
  }
  return result;
}

double Activate(absl::string_view activation, double x) {
  if (activation == "relu") return x < 0 ? 0 : x;
  if (activation == "sigmoid") return 1 / (1 + std::exp(-x));
  if (activation == "tanh") return std::tanh(x);
  return x;
}

double ActivationSlope(absl::string_view activation, double y) {
  if (activation == "relu") return y > 0 ? 1 : 0;
  if (activation == "sigmoid") return y * (1 - y);
  if (activation == "tanh") return 1 - y * y;
  return 1;
}

namespace {

Window WindowOf(const Attributes& attributes, absl::string_view prefix,
                const std::vector<int64_t>& kernel) {
  const auto strides = attributes.GetInts(absl::StrCat(prefix, "strides"), {1, 1});
  const auto pads = attributes.GetInts(absl::StrCat(prefix, "pads"), {0, 0, 0, 0});
  const auto dilations = attributes.GetInts(absl::StrCat(prefix, "dilations"), {1, 1});
  Window window;
  for (size_t k = 0; k < 2; ++k) {
    window.kernel[k] = kernel[k];
    window.strides[k] = strides[k];
    window.pads[k] = pads[k];
    window.dilations[k] = dilations[k];
  }
  return window;
}

}  // namespace

Window PoolWindow(const Attributes& attributes, absl::string_view prefix) {
  return WindowOf(attributes, prefix,
                  attributes.GetInts(absl::StrCat(prefix, "kernel_shape"), {1, 1}));
}

Window ConvolutionWindow(const Attributes& attributes, const Shape& weights) {
  return WindowOf(attributes, "", {weights.dim(2), weights.dim(3)});
}

}  // namespace shoal::reference
