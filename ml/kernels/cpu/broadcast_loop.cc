#include "ml/kernels/cpu/broadcast_loop.h"

#include <algorithm>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal::cpu {
namespace {

using Dim = BroadcastLoop::Dim;

bool CanMerge(const Dim& outer, const Dim& inner, size_t operands) {
  for (size_t k = 0; k < operands; ++k) {
    if (outer.stride[k] != inner.stride[k] * inner.size) return false;
  }
  return true;
}

// Strides of a dense operand, aligned with `full` at the last dimension.
absl::Status FillStrides(const Shape& full, const Shape& operand, int k, Dim* dims) {
  const int missing = full.rank() - operand.rank();
  if (missing < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat(operand.ToString(), " cannot be broadcast to ", full.ToString()));
  }
  int64_t stride = 1;
  for (int d = full.rank() - 1; d >= 0; --d) {
    const int64_t size = d < missing ? 1 : operand.dim(d - missing);
    if (size != 1 && size != full.dim(d)) {
      return absl::InvalidArgumentError(
          absl::StrCat(operand.ToString(), " cannot be broadcast to ", full.ToString()));
    }
    dims[d].stride[k] = size == 1 ? 0 : stride;
    stride *= size;
  }
  return absl::OkStatus();
}

}  // namespace

int64_t BroadcastLoop::outer_count() const {
  int64_t count = 1;
  for (int d = 0; d + 1 < rank; ++d) count *= dims[d].size;
  return count;
}

int64_t BroadcastLoop::OuterOffset(int64_t index, int operand) const {
  int64_t offset = 0;
  for (int d = rank - 2; d >= 0; --d) {
    offset += index % dims[d].size * dims[d].stride[operand];
    index /= dims[d].size;
  }
  return offset;
}

absl::StatusOr<BroadcastLoop> MakeBroadcastLoop(const Shape& full,
                                                absl::Span<const Shape> operands) {
  std::array<Dim, Shape::kMaxRank> all{};
  for (int d = 0; d < full.rank(); ++d) all[d].size = full.dim(d);
  for (size_t k = 0; k < operands.size(); ++k) {
    absl::Status status = FillStrides(full, operands[k], static_cast<int>(k), all.data());
    if (!status.ok()) return status;
  }
  BroadcastLoop loop;
  for (int d = 0; d < full.rank(); ++d) {
    if (all[d].size == 1) continue;
    if (loop.rank > 0 && CanMerge(loop.dims[loop.rank - 1], all[d], operands.size())) {
      Dim& last = loop.dims[loop.rank - 1];
      last.size *= all[d].size;
      last.stride = all[d].stride;
    } else {
      loop.dims[loop.rank++] = all[d];
    }
  }
  if (loop.rank == 0) {
    loop.dims[0] = {1, {1, 1, 1}};
    loop.rank = 1;
  }
  return loop;
}

absl::StatusOr<Shape> BroadcastShape(const Shape& a, const Shape& b) {
  Shape result;
  const int rank = std::max(a.rank(), b.rank());
  for (int d = 0; d < rank; ++d) {
    const int64_t x = d < rank - a.rank() ? 1 : a.dim(d - (rank - a.rank()));
    const int64_t y = d < rank - b.rank() ? 1 : b.dim(d - (rank - b.rank()));
    if (x != y && x != 1 && y != 1) {
      return absl::InvalidArgumentError(
          absl::StrCat(a.ToString(), " and ", b.ToString(), " cannot be broadcast together"));
    }
    result.AddDim(x == 1 ? y : x);
  }
  return result;
}

}  // namespace shoal::cpu
