// Dropout. The elements to drop depend only on (seed, epoch, op, example, element).

#include "base/random.h"
#include "ml/kernels/cpu/kernel_families.h"
#include "ml/kernels/cpu/parallel.h"
#include "ml/kernels/cpu/simd/selection_kernels.h"

namespace shoal::cpu {
namespace {

class DropoutKernel : public Kernel {
 public:
  DropoutKernel(const CpuRequest& request, double rate)
      : simd_(SelectionKernelsFor(request.isa)),
        threads_(request.threads()),
        op_id_(static_cast<uint64_t>(request.attributes().GetInt("op_id", 0))),
        threshold_(static_cast<uint32_t>(rate * 4294967296.0)),
        scale_(static_cast<float>(1.0 / (1.0 - rate))) {
    const Shape& shape = request.output(0).shape;
    examples_ = shape.rank() == 0 ? 1 : shape.dim(0);
    size_ = examples_ == 0 ? 0 : shape.num_elements() / examples_;
  }

  void Run(const KernelContext& context) override {
    const float* x = FloatInput(context, 0);
    float* y = FloatOutput(context, 0);
    const RandomKey& key = context.key;
    const uint64_t op_key = DeriveKey(DeriveKey(key.seed, key.epoch), op_id_);
    ParallelFor(examples_ * size_ > 4096 ? threads_ : 1, examples_,
                [&](int64_t begin, int64_t end) {
                  for (int64_t i = begin; i < end; ++i) {
                    simd_.dropout(op_key, key.first_example + static_cast<uint64_t>(i), 0,
                                  threshold_, scale_, x + i * size_, y + i * size_, size_);
                  }
                });
  }

 private:
  const SelectionKernels& simd_;
  const int threads_;
  const uint64_t op_id_;
  const uint32_t threshold_;
  const float scale_;
  int64_t examples_, size_;
};

}  // namespace

KernelOr CreateDropout(const CpuRequest& request) {
  if (absl::Status status = request.CheckFloat(1, 1, 1); !status.ok()) return status;
  const double rate = request.attributes().GetDouble("rate", 0.5);
  if (!(rate >= 0 && rate < 1)) return request.Invalid("the rate must be in [0, 1)");
  if (request.input(0).shape != request.output(0).shape || !request.HasOneLayout()) {
    return request.Invalid("want equal shapes");
  }
  return std::make_unique<DropoutKernel>(request, rate);
}

}  // namespace shoal::cpu
