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

// Null for a type of device that the request has no kernels for.
const KernelBackend* FindBackend(const CompileRequest& request, absl::string_view device_type) {
  if (request.backend->device_type == device_type) return request.backend;
  for (const KernelBackend* backend : request.accelerators) {
    if (backend->device_type == device_type) return backend;
  }
  return nullptr;
}

absl::StatusOr<DeviceBackends> BackendsOf(const CompileRequest& request) {
  DeviceBackends backends;
  for (const DeviceSpec& device : request.placer.devices) {
    backends.push_back(FindBackend(request, device.device_type));
    if (backends.back() != nullptr) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("devices: there are no kernels for ", device.ToString(),
                     "; name only devices of the backends that are given"));
  }
  return backends;
}

// The placer's question, answered by the backends.
PlacerOptions WithBackends(const CompileRequest& request) {
  PlacerOptions placer = request.placer;
  if (placer.has_kernel) return placer;
  placer.has_kernel = [&request](absl::string_view device_type, const Node& node) {
    const KernelBackend* backend = FindBackend(request, device_type);
    if (backend == nullptr) return false;
    if (!backend->has_kernel) return true;
    std::vector<TensorSpec> inputs;
    for (const Output& input : node.inputs) inputs.push_back(input.spec());
    return backend->has_kernel(node.op, inputs, node.outputs);
  };
  return placer;
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

absl::StatusOr<std::unique_ptr<Executable>> Compile(const CompileRequest& request) {
  ASSIGN_OR_RETURN(const DeviceBackends backends, BackendsOf(request));
  ASSIGN_OR_RETURN(const std::vector<int> placement,
                   PlaceNodes(*request.graph, WithBackends(request)));
  ASSIGN_OR_RETURN(Plan plan, MakePlan(request, placement));
  if (request.fuse) {
    for (size_t d = 0; d < backends.size(); ++d) {
      Fuse(*backends[d], static_cast<int>(d), &plan);
    }
    plan.RemoveUnused();
  }
  if (request.choose_layouts) ChooseLayouts(backends, &plan);
  InsertBorderCopies(backends, &plan);
  return Assemble(request, backends, std::move(plan));
}

}  // namespace shoal
