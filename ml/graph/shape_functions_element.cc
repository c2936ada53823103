// The shape functions of elementwise ops. The output has the shape of the input, or the broadcast
// shape. They also check attributes.
#include <limits>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/graph/shape_functions.h"

namespace shoal::shapes {

absl::Status Clip(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  const double low = request.attributes.GetDouble("min", -kInfinity);
  const double high = request.attributes.GetDouble("max", kInfinity);
  if (!(low <= high)) {
    return absl::InvalidArgumentError(absl::StrCat("min ", low, " is above max ", high));
  }
  return SameAsFirst(request, outputs);
}

// The gradient is computed from the output, so the output must have the sign of the input.
absl::Status WithAlpha(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const double alpha = request.attributes.GetDouble("alpha", 0);
  if (!(alpha >= 0)) {
    return absl::InvalidArgumentError(absl::StrCat("alpha must be 0 or more, is ", alpha));
  }
  return SameAsFirst(request, outputs);
}

absl::Status Gelu(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const std::string approximate = request.attributes.GetString("approximate", "none");
  if (approximate != "none" && approximate != "tanh") {
    return absl::InvalidArgumentError(
        absl::StrCat("approximate must be none or tanh, is ", approximate));
  }
  return SameAsFirst(request, outputs);
}

absl::Status Compare(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  RETURN_IF_ERROR(Broadcast(request, outputs));
  outputs->back().dtype = DataType::kBool;
  return absl::OkStatus();
}

absl::Status Where(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& condition = request.inputs[0];
  if (condition.dtype != DataType::kBool) {
    return absl::InvalidArgumentError(
        absl::StrCat("the condition must be bool, is ", condition.ToString()));
  }
  RETURN_IF_ERROR(Broadcast({request.attributes, request.inputs.subspan(1)}, outputs));
  ASSIGN_OR_RETURN(outputs->back().shape, BroadcastShapes(condition.shape, outputs->back().shape));
  return absl::OkStatus();
}

}  // namespace shoal::shapes
