// The kernels that are loops of our own: everything but products and convolutions. Their bodies
// (*_loops.inc) say what one element or one sum is; the build runs them on a GPU (device_loops.cuh)
// or, for tests without one, as loops on the host (host_loops.h). Private to ml/kernels/cuda.
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
  // One letter per input, then per output after a colon; the last of each side repeats. f float32,
  // i int32, n int32 or int64, u uint8, b bool, p float32 or bfloat16, * any type but bfloat16, a
  // any type.
  const char* types;
  CreateFunction create;
};

// The loop of the request's op among these, InvalidArgument or Unimplemented if its types or sizes
// do not fit; NotFound if there is none.
absl::StatusOr<std::unique_ptr<Kernel>> CreateLoop(
    const std::vector<absl::Span<const LoopOp>>& families, const KernelRequest& request);
// Returns whether there is a loop for these types.
bool HasLoop(const std::vector<absl::Span<const LoopOp>>& families, absl::string_view op,
             absl::Span<const TensorSpec> inputs, absl::Span<const TensorSpec> outputs);
// Returns whether element types are those of a LoopOp::types.
bool TypesFit(absl::string_view types, absl::Span<const TensorSpec> inputs,
              absl::Span<const TensorSpec> outputs);
// Kernels index by 32 bits and know plain layouts.
absl::Status CheckSizes(const KernelRequest& request);

// A kernel that is a function of its context; `Launch` enqueues and returns.
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

// Up to eight dimensions walked with a step in a tensor each.
struct Walk {
  int rank = 0;
  int dims[Shape::kMaxRank];
  int steps[Shape::kMaxRank];
};
// Visits the elements of `from` that are broadcast to those of `to`, in their order.
Walk BroadcastWalk(const Shape& from, const Shape& to);
// The elements of a tensor, apart: which kept ones there are, and what is reduced into each.
struct ReductionWalks {
  Walk kept, reduced;
  int num_kept = 1, num_reduced = 1;
};
// `kept` has the rank of `from`, with 1 where a dimension is reduced.
ReductionWalks WalksOfReduction(const Shape& from, const Shape& kept);

// A reduction of `length` terms for each of `rows` results is cut into parts, so that few long rows
// keep a GPU busy. The cut follows from the sizes alone.
int PartsOfReduction(int rows, int length);
// Threads that add the terms of one part, a power of two up to 256.
int ThreadsOfReduction(int length);

// activation: none, relu, relu6, sigmoid, tanh.
enum class Activation { kNone, kRelu, kRelu6, kSigmoid, kTanh };
Activation ActivationOf(const Attributes& attributes);

}  // namespace shoal::cuda

#endif  // SHOAL_ML_KERNELS_CUDA_LOOPS_H_
