#include "ml/graph/compiler.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "ml/graph/assembler.h"
#include "ml/graph/plan.h"

namespace shoal {
namespace {

std::vector<const KernelBackend*> AllBackends(const CompileRequest& request) {
  std::vector<const KernelBackend*> backends = {request.backend};
  backends.insert(backends.end(), request.accelerators.begin(), request.accelerators.end());
  return backends;
}

// Returns null for a type of device without a backend.
const KernelBackend* FindBackend(absl::Span<const KernelBackend* const> backends,
                                 absl::string_view device_type) {
  for (const KernelBackend* backend : backends) {
    if (backend->device_type == device_type) return backend;
  }
  return nullptr;
}

absl::StatusOr<DeviceBackends> ListBackends(const CompileRequest& request) {
  DeviceBackends backends;
  for (const DeviceSpec& device : request.placer.devices) {
    backends.push_back(FindBackend(AllBackends(request), device.device_type));
    if (backends.back() != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("devices: there are no kernels for ", device.ToString(),
                     "; name only devices of the backends that are given"));
  }
  return backends;
}

bool HasFused(const KernelBackend& backend, absl::string_view op) {
  return std::count(backend.fused_ops.begin(), backend.fused_ops.end(), op) > 0;
}

void Fuse(const KernelBackend& backend, int device, Plan* plan) {
  if (HasFused(backend, "Dense") && HasFused(backend, "DenseGrad")) FuseDense(plan, device);
  if (HasFused(backend, "MaxPool")) FusePooling(plan, device);
  if (HasFused(backend, "ConvPool") && HasFused(backend, "ConvPoolGrad")) {
    FuseConvolutionPooling(plan, device);
  }
  if (HasFused(backend, "Conv")) FuseConvolutionActivation(plan, device);
  if (HasFused(backend, "BatchNorm")) FuseNormalization(plan, device);
  if (HasFused(backend, "EmbeddingBagGrad")) FuseEmbeddingGradients(plan, device);
  if (HasFused(backend, "ConvBatchNormGrad")) FuseNormalizationGradient(plan, device);
}

void ChooseLayouts(const DeviceBackends& backends, Plan* plan) {
  std::vector<LayoutSupport> supports_layout;
  bool any = false;
  for (const KernelBackend* backend : backends) {
    supports_layout.push_back(backend->supports_layout);
    any |= static_cast<bool>(backend->supports_layout);
  }
  if (any) AssignLayouts(supports_layout, plan);
}

}  // namespace

bool HasKernel(absl::Span<const KernelBackend* const> backends, absl::string_view device_type,
               const Node& node) {
  const KernelBackend* backend = FindBackend(backends, device_type);
  if (backend == nullptr || !backend->has_kernel) return true;
  std::vector<TensorSpec> inputs;
  for (const Output& input : node.inputs) inputs.push_back(input.spec());
  return backend->has_kernel(node.op, inputs, node.outputs);
}

absl::StatusOr<std::unique_ptr<Executable>> Compile(const CompileRequest& request) {
  if (request.compute_dtype != DataType::kFloat32 && request.compute_dtype != DataType::kBfloat16) {
    return absl::InvalidArgumentError(
        absl::StrCat("compute_dtype: ", DataTypeName(request.compute_dtype),
                     " is neither float32 nor bfloat16"));
  }
  ASSIGN_OR_RETURN(const DeviceBackends backends, ListBackends(request));
  PlacerOptions placer = request.placer;
  if (!placer.has_kernel) {
    placer.has_kernel = [&](absl::string_view device_type, const Node& node) {
      return HasKernel(AllBackends(request), device_type, node);
    };
  }
  ASSIGN_OR_RETURN(const std::vector<int> placement, PlaceNodes(*request.graph, placer));
  ASSIGN_OR_RETURN(Plan plan, MakePlan(request, placement));
  if (request.compute_dtype == DataType::kBfloat16) RETURN_IF_ERROR(RoundProducts(backends, &plan));
  if (request.fuse) {
    for (size_t d = 0; d < backends.size(); ++d) {
      Fuse(*backends[d], static_cast<int>(d), &plan);
    }
    plan.RemoveUnused();
  }
  if (request.choose_layouts) ChooseLayouts(backends, &plan);
  if (request.group_devices) FindGroup(backends, placer.devices, &plan);
  InsertBorderCopies(backends, &plan);
  SplitGroupSums(&plan);
  return Assemble(request, backends, std::move(plan));
}

}  // namespace shoal
