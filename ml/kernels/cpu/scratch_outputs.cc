#include "ml/kernels/cpu/scratch_outputs.h"

#include <utility>

#include "absl/algorithm/container.h"
#include "absl/strings/string_view.h"

#include "ml/tensor/buffer.h"

namespace shoal::cpu {
namespace {

// The ops whose kernels write all outputs, also those that are not needed.
constexpr absl::string_view kWritesAllOutputs[] = {
    "ConvPool", "GlobalMaxPool", "MaxPool", "SoftmaxCrossEntropy", "SparseSoftmaxCrossEntropy"};

class ScratchOutputsKernel : public Kernel {
 public:
  // For every output: its place in the workspace behind the kernel's own, or kGiven.
  static constexpr size_t kGiven = ~size_t{0};

  ScratchOutputsKernel(std::unique_ptr<Kernel> kernel, std::vector<size_t> offsets,
                       size_t scratch_bytes)
      : kernel_(std::move(kernel)),
        offsets_(std::move(offsets)),
        own_bytes_(AlignedBytes(kernel_->workspace_bytes())),
        scratch_bytes_(scratch_bytes),
        outputs_(offsets_.size()) {}

  size_t workspace_bytes() const override { return own_bytes_ + scratch_bytes_; }

  void Run(const KernelContext& context) override {
    char* scratch = static_cast<char*>(context.workspace) + own_bytes_;
    for (size_t k = 0; k < offsets_.size(); ++k) {
      outputs_[k] = offsets_[k] == kGiven ? context.outputs[k] : scratch + offsets_[k];
    }
    KernelContext inner = context;
    inner.outputs = outputs_.data();
    kernel_->Run(inner);
  }

 private:
  const std::unique_ptr<Kernel> kernel_;
  const std::vector<size_t> offsets_;
  const size_t own_bytes_;
  const size_t scratch_bytes_;
  std::vector<void*> outputs_;
};

}  // namespace

std::vector<bool> WrittenOutputs(const KernelRequest& request) {
  std::vector<bool> written = request.output_needed;
  written.resize(request.outputs.size(), true);
  if (absl::c_linear_search(kWritesAllOutputs, request.op)) {
    written.assign(written.size(), true);
  } else if ((request.op == "ConvGrad" || request.op == "ConvPoolGrad") && written.size() == 3) {
    written[1] = written[1] || written[2];
  }
  return written;
}

absl::StatusOr<std::unique_ptr<Kernel>> CreateWithScratchOutputs(const KernelRequest& request,
                                                                 const std::vector<bool>& written,
                                                                 const KernelFactory& create) {
  KernelRequest whole = request;
  whole.output_needed = written;
  absl::StatusOr<std::unique_ptr<Kernel>> kernel = create(whole);
  if (!kernel.ok()) return kernel.status();
  std::vector<size_t> offsets;
  size_t bytes = 0;
  for (size_t k = 0; k < written.size(); ++k) {
    const bool is_needed = k >= request.output_needed.size() || request.output_needed[k];
    const bool is_scratch = written[k] && !is_needed;
    offsets.push_back(is_scratch ? bytes : ScratchOutputsKernel::kGiven);
    if (is_scratch) bytes += AlignedBytes(request.outputs[k].bytes());
  }
  return {std::make_unique<ScratchOutputsKernel>(*std::move(kernel), std::move(offsets), bytes)};
}

}  // namespace shoal::cpu
