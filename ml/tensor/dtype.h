// The element types of tensors.
#ifndef SHOAL_ML_TENSOR_DTYPE_H_
#define SHOAL_ML_TENSOR_DTYPE_H_

#include <cstddef>
#include <cstdint>

#include "absl/strings/string_view.h"

#include "ml/tensor/bfloat16.h"

namespace shoal {

// kBfloat16 is used only for the operands of products, if CompileRequest::compute_dtype asks for
// it. Only products, Cast and copies have kernels for it.
enum class DataType { kFloat32, kFloat64, kInt32, kInt64, kUint8, kBool, kBfloat16 };

// Returns the size of one element in bytes.
size_t SizeOf(DataType dtype);

// Returns "float32", "float64", "int32", "int64", "uint8", "bool" or "bfloat16".
absl::string_view DataTypeName(DataType dtype);

// Returns whether the type is float32 or float64.
inline bool IsFloating(DataType dtype) {
  return dtype == DataType::kFloat32 || dtype == DataType::kFloat64;
}

// The DataType of a C++ element type: DataTypeOf<float>() == DataType::kFloat32.
template <typename T>
constexpr DataType DataTypeOf();
template <>
constexpr DataType DataTypeOf<float>() {
  return DataType::kFloat32;
}
template <>
constexpr DataType DataTypeOf<double>() {
  return DataType::kFloat64;
}
template <>
constexpr DataType DataTypeOf<int32_t>() {
  return DataType::kInt32;
}
template <>
constexpr DataType DataTypeOf<int64_t>() {
  return DataType::kInt64;
}
template <>
constexpr DataType DataTypeOf<uint8_t>() {
  return DataType::kUint8;
}
template <>
constexpr DataType DataTypeOf<bool>() {
  return DataType::kBool;
}
template <>
constexpr DataType DataTypeOf<Bfloat16>() {
  return DataType::kBfloat16;
}

}  // namespace shoal

#endif  // SHOAL_ML_TENSOR_DTYPE_H_
