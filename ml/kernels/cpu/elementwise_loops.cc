#include "ml/kernels/cpu/elementwise_loops.h"

#include <vector>

#include "absl/strings/str_cat.h"

namespace shoal::cpu {
namespace {

// Returns the dimensions of a tensor in the order in which they are in memory.
Shape MemoryShape(const TensorSpec& spec) {
  const Shape& s = spec.shape;
  if (spec.layout == Layout::kPlain) return s;
  return {s.dim(0), s.dim(1) / 16, s.dim(2) * s.dim(3), 16};
}

// Returns the same for an operand of an op on blocked images. The operand is blocked itself, or has
// one value for all channels or one for each channel.
absl::StatusOr<Shape> MemoryShapeBeside(const TensorSpec& spec) {
  if (spec.layout == Layout::kBlocked16) return MemoryShape(spec);
  const Shape& s = spec.shape;
  const int64_t channels = s.rank() >= 3 ? s.dim(s.rank() - 3) : 1;
  const bool has_images = s.num_elements() != channels;
  if (has_images || (channels != 1 && channels % 16 != 0)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "operand ", spec.ToString(), " has another layout than the result, which is blocked"));
  }
  return channels == 1 ? Shape{} : Shape{channels / 16, 1, 16};
}

}  // namespace

absl::StatusOr<BroadcastLoop> ElementwiseLoop(const CpuRequest& request) {
  const TensorSpec& c = request.output(0);
  std::vector<Shape> operands;
  if (c.layout == Layout::kPlain) {
    if (!request.HasOneLayout()) return absl::InvalidArgumentError("want equal layouts");
    for (const TensorSpec& spec : request.request.inputs) operands.push_back(spec.shape);
    return MakeBroadcastLoop(c.shape, operands);
  }
  for (const TensorSpec& spec : request.request.inputs) {
    const absl::StatusOr<Shape> shape = MemoryShapeBeside(spec);
    if (!shape.ok()) return shape.status();
    operands.push_back(*shape);
  }
  return MakeBroadcastLoop(MemoryShape(c), operands);
}

}  // namespace shoal::cpu
