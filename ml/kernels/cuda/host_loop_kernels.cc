#include "ml/kernels/cuda/host_loop_kernels.h"

#include "ml/kernels/cuda/loop_families.h"

namespace shoal::cuda {
namespace {

std::vector<absl::Span<const LoopOp>> Families() {
  return {on_host::ElementLoops(), on_host::ReductionLoops(), on_host::ImageLoops(),
          on_host::NormLoops(),    on_host::MoveLoops(),      on_host::LookupLoops(),
          on_host::FeatureLoops()};
}

}  // namespace

absl::StatusOr<std::unique_ptr<Kernel>> CreateHostLoop(const KernelRequest& request) {
  return CreateLoop(Families(), request);
}

std::vector<std::string> HostLoopOps() {
  std::vector<std::string> names;
  for (absl::Span<const LoopOp> family : Families()) {
    for (const LoopOp& op : family) names.emplace_back(op.name);
  }
  return names;
}

}  // namespace shoal::cuda
