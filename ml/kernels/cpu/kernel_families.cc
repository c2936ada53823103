#include "ml/kernels/cpu/kernel_families.h"

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"

#include "ml/device/describe_request.h"

namespace shoal::cpu {
bool CpuRequest::needed(int i) const {
  const std::vector<bool>& needed = request.output_needed;
  return i >= static_cast<int>(needed.size()) || needed[i];
}

bool CpuRequest::HasOneLayout() const {
  const auto is_first = [&](const TensorSpec& spec) { return spec.layout == output(0).layout; };
  return absl::c_all_of(request.inputs, is_first) && absl::c_all_of(request.outputs, is_first);
}

absl::Status CpuRequest::Invalid(absl::string_view reason) const {
  return absl::InvalidArgumentError(absl::StrCat(DescribeRequest(request), ": ", reason));
}

absl::Status CpuRequest::NoKernel() const {
  return absl::UnimplementedError(absl::StrCat("no CPU kernel for ", DescribeRequest(request),
                                               "; the CPU computes in float32"));
}

absl::Status CpuRequest::CheckFloat(int min_inputs, int max_inputs, int outputs) const {
  if (num_inputs() < min_inputs || num_inputs() > max_inputs || num_outputs() != outputs) {
    return Invalid("wrong number of inputs or outputs");
  }
  for (const TensorSpec& spec : request.inputs) {
    if (spec.dtype != DataType::kFloat32) return NoKernel();
  }
  for (const TensorSpec& spec : request.outputs) {
    if (spec.dtype != DataType::kFloat32) return NoKernel();
  }
  return absl::OkStatus();
}

absl::StatusOr<Activation> ActivationFromName(absl::string_view name) {
  if (name == "none") return Activation::kNone;
  if (name == "relu") return Activation::kRelu;
  if (name == "relu6") return Activation::kRelu6;
  if (name == "sigmoid") return Activation::kSigmoid;
  if (name == "tanh") return Activation::kTanh;
  return absl::InvalidArgumentError(
      absl::StrCat("activation \"", name, "\" is not one of none, relu, relu6, sigmoid, tanh"));
}

}  // namespace shoal::cpu
