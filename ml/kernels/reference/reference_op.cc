#include "ml/kernels/reference/reference_op.h"

#include <cmath>
#include <cstring>
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

void CopyElement(size_t bytes, const void* from, int64_t from_index, void* to, int64_t to_index) {
  std::memcpy(static_cast<char*>(to) + static_cast<size_t>(to_index) * bytes,
              static_cast<const char*>(from) + static_cast<size_t>(from_index) * bytes, bytes);
}

double LoadElement(DataType dtype, const void* from, int64_t index) {
  switch (dtype) {
    case DataType::kFloat32:
      return static_cast<const float*>(from)[index];
    case DataType::kFloat64:
      return static_cast<const double*>(from)[index];
    case DataType::kInt32:
      return static_cast<const int32_t*>(from)[index];
    case DataType::kInt64:
      return static_cast<double>(static_cast<const int64_t*>(from)[index]);
    case DataType::kUint8:
      return static_cast<const uint8_t*>(from)[index];
    case DataType::kBool:
      return static_cast<const bool*>(from)[index] ? 1 : 0;
    case DataType::kBfloat16:
      return static_cast<const Bfloat16*>(from)[index];
  }
  return 0;
}

void StoreElement(DataType dtype, double value, void* to, int64_t index) {
  switch (dtype) {
    case DataType::kFloat32:
      static_cast<float*>(to)[index] = static_cast<float>(value);
      break;
    case DataType::kFloat64:
      static_cast<double*>(to)[index] = value;
      break;
    case DataType::kInt32:
      static_cast<int32_t*>(to)[index] = static_cast<int32_t>(value);
      break;
    case DataType::kInt64:
      static_cast<int64_t*>(to)[index] = static_cast<int64_t>(value);
      break;
    case DataType::kUint8:
      static_cast<uint8_t*>(to)[index] = static_cast<uint8_t>(value);
      break;
    case DataType::kBool:
      static_cast<bool*>(to)[index] = value != 0;
      break;
    case DataType::kBfloat16:
      static_cast<Bfloat16*>(to)[index] = Bfloat16(static_cast<float>(value));
      break;
  }
}

double Activate(absl::string_view activation, double x) {
  if (activation == "relu") return x < 0 ? 0 : x;
  if (activation == "relu6") return x < 0 ? 0 : x > 6 ? 6 : x;
  if (activation == "sigmoid") return 1 / (1 + std::exp(-x));
  if (activation == "tanh") return std::tanh(x);
  return x;
}

double ActivationSlope(absl::string_view activation, double y) {
  if (activation == "relu") return y > 0 ? 1 : 0;
  if (activation == "relu6") return y > 0 && y < 6 ? 1 : 0;
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
