#include "ml/tensor/tensor_spec.h"

#include "absl/strings/str_cat.h"

namespace shoal {

std::string TensorSpec::ToString() const {
  return absl::StrCat(DataTypeName(dtype), shape.ToString(),
                      layout == Layout::kBlocked16 ? ":blocked16" : "");
}

}  // namespace shoal
