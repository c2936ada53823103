// Ops on elements of any type: comparisons, Where, Cast.

#include "ml/kernels/cpu/simd/selection_kernels.h"

#include "ml/kernels/cpu/elementwise_loops.h"

namespace shoal::cpu {
namespace {

// Returns operand k of a loop, from element `begin` of the outer iteration on.
AnyOperand OperandAt(const KernelContext& context, const BroadcastLoop& loop, int k, size_t bytes,
                     int64_t outer, int64_t begin) {
  const int64_t stride = loop.inner().stride[k];
  const int64_t offset = loop.OuterOffset(outer, k) + begin * stride;
  return {static_cast<const char*>(context.inputs[k]) + offset * static_cast<int64_t>(bytes),
          stride == 0};
}

class CompareKernel : public Kernel {
 public:
  CompareKernel(const CpuRequest& request, Comparison op, const BroadcastLoop& loop)
      : simd_(SelectionKernelsFor(request.isa)),
        threads_(request.threads()),
        op_(op),
        dtype_(request.input(0).dtype),
        loop_(loop) {}

  void Run(const KernelContext& context) override {
    const size_t bytes = SizeOf(dtype_);
    uint8_t* c = static_cast<uint8_t*>(context.outputs[0]);
    ParallelBroadcast(threads_, loop_, [&](int64_t outer, int64_t begin, int64_t end) {
      simd_.compare(op_, dtype_, OperandAt(context, loop_, 0, bytes, outer, begin),
                    OperandAt(context, loop_, 1, bytes, outer, begin),
                    c + outer * loop_.inner().size + begin, end - begin);
    });
  }

 private:
  const SelectionKernels& simd_;
  const int threads_;
  const Comparison op_;
  const DataType dtype_;
  const BroadcastLoop loop_;
};

class WhereKernel : public Kernel {
 public:
  WhereKernel(const CpuRequest& request, const BroadcastLoop& loop)
      : simd_(SelectionKernelsFor(request.isa)),
        threads_(request.threads()),
        bytes_(SizeOf(request.output(0).dtype)),
        loop_(loop) {}

  void Run(const KernelContext& context) override {
    char* z = static_cast<char*>(context.outputs[0]);
    ParallelBroadcast(threads_, loop_, [&](int64_t outer, int64_t begin, int64_t end) {
      const int64_t at = outer * loop_.inner().size + begin;
      simd_.select(OperandAt(context, loop_, 0, 1, outer, begin),
                   OperandAt(context, loop_, 1, bytes_, outer, begin),
                   OperandAt(context, loop_, 2, bytes_, outer, begin),
                   z + at * static_cast<int64_t>(bytes_), bytes_, end - begin);
    });
  }

 private:
  const SelectionKernels& simd_;
  const int threads_;
  const size_t bytes_;
  const BroadcastLoop loop_;
};

class CastKernel : public Kernel {
 public:
  explicit CastKernel(const CpuRequest& request)
      : simd_(SelectionKernelsFor(request.isa)),
        threads_(request.threads()),
        from_(request.input(0).dtype),
        to_(request.output(0).dtype),
        n_(request.output(0).shape.num_elements()) {}

  void Run(const KernelContext& context) override {
    const char* x = static_cast<const char*>(context.inputs[0]);
    char* y = static_cast<char*>(context.outputs[0]);
    const auto from_bytes = static_cast<int64_t>(SizeOf(from_));
    const auto to_bytes = static_cast<int64_t>(SizeOf(to_));
    ParallelChunks(threads_, n_, [&](int64_t begin, int64_t end) {
      simd_.convert(from_, to_, x + begin * from_bytes, y + begin * to_bytes, end - begin);
    });
  }

 private:
  const SelectionKernels& simd_;
  const int threads_;
  const DataType from_, to_;
  const int64_t n_;
};

}  // namespace

KernelOr CreateCompare(const CpuRequest& request) {
  if (request.num_inputs() != 2 || request.num_outputs() != 1 ||
      request.input(0).dtype != request.input(1).dtype ||
      request.output(0).dtype != DataType::kBool) {
    return request.Invalid("want two inputs of one dtype -> bool");
  }
  const absl::StatusOr<BroadcastLoop> loop = ElementwiseLoop(request);
  if (!loop.ok()) return request.Invalid(loop.status().message());
  const absl::string_view op = request.request.op;
  return std::make_unique<CompareKernel>(request,
                                         op == "Equal"  ? Comparison::kEqual
                                         : op == "Less" ? Comparison::kLess
                                                        : Comparison::kGreater,
                                         *loop);
}

KernelOr CreateWhere(const CpuRequest& request) {
  if (request.num_inputs() != 3 || request.num_outputs() != 1 ||
      request.input(0).dtype != DataType::kBool ||
      request.input(1).dtype != request.output(0).dtype ||
      request.input(2).dtype != request.output(0).dtype) {
    return request.Invalid("want a bool and two inputs of the output's dtype");
  }
  const absl::StatusOr<BroadcastLoop> loop = ElementwiseLoop(request);
  if (!loop.ok()) return request.Invalid(loop.status().message());
  return std::make_unique<WhereKernel>(request, *loop);
}

KernelOr CreateCast(const CpuRequest& request) {
  if (request.num_inputs() != 1 || request.num_outputs() != 1 ||
      request.input(0).shape != request.output(0).shape || !request.HasOneLayout()) {
    return request.Invalid("want one input and output of one shape and layout");
  }
  return std::make_unique<CastKernel>(request);
}

}  // namespace shoal::cpu
