#include "ml/tensor/dtype.h"

namespace shoal {

size_t SizeOf(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
    case DataType::kInt32:
      return 4;
    case DataType::kFloat64:
    case DataType::kInt64:
      return 8;
    case DataType::kUint8:
    case DataType::kBool:
      return 1;
    case DataType::kBfloat16:
      return 2;
  }
  return 0;
}

absl::string_view DataTypeName(DataType dtype) {
  switch (dtype) {
    case DataType::kFloat32:
      return "float32";
    case DataType::kFloat64:
      return "float64";
    case DataType::kInt32:
      return "int32";
    case DataType::kInt64:
      return "int64";
    case DataType::kUint8:
      return "uint8";
    case DataType::kBool:
      return "bool";
    case DataType::kBfloat16:
      return "bfloat16";
  }
  return "unknown";
}

}  // namespace shoal
