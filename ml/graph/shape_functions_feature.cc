// Shapes of the ops on features: bags of rows, and products of vectors.

#include "absl/strings/str_cat.h"

#include "ml/graph/shape_functions.h"

namespace shoal::shapes {
namespace {

bool IsIndex(const TensorSpec& spec) {
  return spec.shape.rank() == 1 &&
         (spec.dtype == DataType::kInt32 || spec.dtype == DataType::kInt64);
}

bool IsSameOrUnknown(int64_t a, int64_t b) { return a < 0 || b < 0 || a == b; }

// Sets the batch size and checks that all inputs are vectors of one size.
absl::Status CheckVectors(const ShapeRequest& request, int64_t* batch) {
  const TensorSpec& first = request.inputs[0];
  *batch = kUnknownDim;
  for (const TensorSpec& input : request.inputs) {
    if (input.shape.rank() != 2 || !IsFloating(input.dtype) || input.dtype != first.dtype ||
        !IsSameOrUnknown(input.shape.dim(1), first.shape.dim(1)) ||
        !IsSameOrUnknown(input.shape.dim(0), *batch)) {
      return absl::InvalidArgumentError(
          absl::StrCat("takes vectors [batch, dim] of one size; they are ", first.ToString(),
                       " and ", input.ToString()));
    }
    if (input.shape.dim(0) >= 0) *batch = input.shape.dim(0);
  }
  return absl::OkStatus();
}

}  // namespace

// Inputs: rows, indices, offsets, weights (optional).
absl::Status EmbeddingBag(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  const TensorSpec& rows = request.inputs[0];
  const TensorSpec& indices = request.inputs[1];
  const TensorSpec& offsets = request.inputs[2];
  if (rows.shape.rank() != 2 || !IsFloating(rows.dtype)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the rows must be a matrix of floats, are ", rows.ToString()));
  }
  if (!IsIndex(indices) || !IsIndex(offsets)) {
    return absl::InvalidArgumentError(
        absl::StrCat("indices and offsets must be int32 or int64 with one dimension, are ",
                     indices.ToString(), " and ", offsets.ToString()));
  }
  if (offsets.shape.dim(0) == 0) {
    return absl::InvalidArgumentError("the offsets must be one more than the examples, are none");
  }
  if (request.inputs.size() > 3) {
    const TensorSpec& weights = request.inputs[3];
    if (weights.dtype != rows.dtype || weights.shape.rank() != 1 ||
        !IsSameOrUnknown(weights.shape.dim(0), indices.shape.dim(0))) {
      return absl::InvalidArgumentError(absl::StrCat("the weights must be one ",
                                                     DataTypeName(rows.dtype),
                                                     " for each index, are ", weights.ToString()));
    }
  }
  const int64_t bounds = offsets.shape.dim(0);
  outputs->push_back(
      {rows.dtype, Shape({bounds < 0 ? kUnknownDim : bounds - 1, rows.shape.dim(1)})});
  return absl::OkStatus();
}

absl::Status PairwiseDots(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  int64_t batch = 0;
  const absl::Status checked = CheckVectors(request, &batch);
  if (!checked.ok()) return checked;
  const auto vectors = static_cast<int64_t>(request.inputs.size());
  outputs->push_back({request.inputs[0].dtype, Shape({batch, vectors * (vectors - 1) / 2})});
  return absl::OkStatus();
}

absl::Status FactorizationMachine(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  int64_t batch = 0;
  const absl::Status checked = CheckVectors(request, &batch);
  if (!checked.ok()) return checked;
  outputs->push_back({request.inputs[0].dtype, Shape({batch, 1})});
  return absl::OkStatus();
}

absl::Status LikeAllAfterFirst(const ShapeRequest& request, std::vector<TensorSpec>* outputs) {
  outputs->insert(outputs->end(), request.inputs.begin() + 1, request.inputs.end());
  return absl::OkStatus();
}

}  // namespace shoal::shapes
