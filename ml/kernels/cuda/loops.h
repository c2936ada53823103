// The kernels of all ops except products and convolutions. The files *_loops.inc define how one
// element or one sum is computed. They are compiled twice: for a GPU (device_loops.cuh) and, for
// tests without a GPU, as loops on the host (host_loops.h). Private to ml/kernels/cuda.
#ifndef SHOAL_ML_KERNELS_CUDA_LOOPS_H_
#define SHOAL_ML_KERNELS_CUDA_LOOPS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/types/span.h"

#include "ml/device/kernel.h"

namespace shoal::cuda {

using CreateFunction = absl::StatusOr<std::unique_ptr<Kernel>> (*)(const KernelRequest& request);

struct LoopOp {
  const char* name;
  // The types that the kernel accepts: one letter per input, a colon, and one letter per output.
  // The last letter of each side also stands for all further inputs or outputs. f: float32, i:
  // int32, n: int32 or int64, u: uint8, b: bool, p: float32 or bfloat16, *: any type except
  // bfloat16, a: any type.
  const char* types;
  CreateFunction create;
};

// Makes the kernel of the request's op. Returns NotFound if the families do not have the op, and
// Unimplemented or InvalidArgument if its types or sizes do not fit.
absl::StatusOr<std::unique_ptr<Kernel>> CreateLoop(
    const std::vector<absl::Span<const LoopOp>>& families, const KernelRequest& request);
// Returns whether the families have the op for these types.
bool HasLoop(const std::vector<absl::Span<const LoopOp>>& families, absl::string_view op,
             absl::Span<const TensorSpec> inputs, absl::Span<const TensorSpec> outputs);
// Returns whether the element types match `types`, see LoopOp::types.
bool TypesFit(absl::string_view types, absl::Span<const TensorSpec> inputs,
              absl::Span<const TensorSpec> outputs);
// Returns Unimplemented if a tensor is too large for the kernels' 32-bit indices (more than 2^30 -
// 1 elements), or if its layout is not plain.
absl::Status CheckSizes(const KernelRequest& request);

// A kernel whose Run calls launch(context), which enqueues the work and returns.
template <typename Launch>
class FunctionKernel final : public Kernel {
 public:
  FunctionKernel(size_t workspace_bytes, Launch launch)
      : workspace_bytes_(workspace_bytes), launch_(std::move(launch)) {}
  size_t workspace_bytes() const override { return workspace_bytes_; }
  void Run(const KernelContext& context) override { launch_(context); }

 private:
  const size_t workspace_bytes_;
  const Launch launch_;
};

template <typename Launch>
std::unique_ptr<Kernel> MakeKernel(size_t workspace_bytes, Launch launch) {
  return std::make_unique<FunctionKernel<Launch>>(workspace_bytes, std::move(launch));
}
template <typename Launch>
std::unique_ptr<Kernel> MakeKernel(Launch launch) {
  return MakeKernel(0, std::move(launch));
}

template <typename T>
const T* In(const KernelContext& context, int index) {
  return static_cast<const T*>(context.inputs[index]);
}
template <typename T>
T* Out(const KernelContext& context, int index) {
  return static_cast<T*>(context.outputs[index]);
}

inline int Count(const TensorSpec& spec) { return static_cast<int>(spec.shape.num_elements()); }

// A nested loop over up to eight dimensions, outermost first. `steps` are the distances in elements
// between neighbours of each dimension.
struct Walk {
  int rank = 0;
  int dims[Shape::kMaxRank];
  int steps[Shape::kMaxRank];
};
// Returns a walk over `to` in row-major order that visits, for each element, the element of `from`
// that is broadcast to it.
Walk BroadcastWalk(const Shape& from, const Shape& to);
// A reduction as two walks in the input: `kept` visits the first input element of each result, and
// `reduced` the input elements of one result, relative to the first one. The numbers are those of
// results and of elements per result.
struct ReductionWalks {
  Walk kept, reduced;
  int num_kept = 1, num_reduced = 1;
};
// `kept` is the shape of the result. It has the rank of `from`, and 1 for each reduced dimension.
ReductionWalks WalksOfReduction(const Shape& from, const Shape& kept);

// Returns into how many parts to divide each of `rows` sums of `length` terms. Few long sums are
// divided so that they use the whole GPU. The result depends only on the sizes.
int PartsOfReduction(int rows, int length);
// Returns the number of threads that add the terms of one part, a power of two of at most 256.
int ThreadsOfReduction(int length);

// The values of the attribute `activation`: none, relu, relu6, sigmoid, tanh.
enum class Activation { kNone, kRelu, kRelu6, kSigmoid, kTanh };
Activation ActivationOf(const Attributes& attributes);

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_LOOPS_H_
