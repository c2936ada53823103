// Rounds the operands of the products of a float32 graph to bfloat16.
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/graph/plan.h"

namespace shoal {
namespace {

// Returns the inputs of an op that are multiplied with each other; none if the op is not a product.
std::vector<size_t> FactorsOf(absl::string_view op) {
  if (op == "MatMul" || op == "Conv" || op == "ConvTranspose") return {0, 1};
  if (op == "ConvGrad") return {0, 1, 3};
  return {};
}

class ProductRounding {
 public:
  ProductRounding(const DeviceBackends& backends, Plan* plan) : backends_(backends), plan_(*plan) {}
  absl::Status Run();

 private:
  absl::Status CheckDevice(const PlanStep& product) const;
  int Rounded(int value, int reader);
  absl::Status TakeBiasOut(int gradient);

  const DeviceBackends& backends_;
  Plan& plan_;
  std::map<std::pair<int, int>, int> rounded_;  // (value, device) -> the value as bfloat16
};

absl::Status ProductRounding::CheckDevice(const PlanStep& product) const {
  const KernelBackend& backend = *backends_[product.device];
  const TensorSpec number{DataType::kFloat32, Shape()}, rounded{DataType::kBfloat16, Shape()};
  if (!backend.has_kernel || backend.has_kernel("Cast", {number}, {rounded})) {
    return absl::OkStatus();
  }
  return absl::UnimplementedError(absl::StrCat(
      "compute_dtype: ", product.name, " (", product.op, ") is on a ", backend.device_type,
      ", which has no kernel that rounds to bfloat16; use float32 or another device"));
}

// Rounds a value once on each device, for all products on that device.
int ProductRounding::Rounded(int value, int reader) {
  if (plan_.values[value].spec.dtype != DataType::kFloat32) return value;
  const PlanStep& product = plan_.steps[reader];
  const auto [known, is_new] = rounded_.insert({{value, product.device}, -1});
  if (!is_new) return known->second;
  PlanStep cast;
  cast.name = absl::StrCat(product.name, "/Bfloat16");
  cast.op = "Cast";
  cast.attributes.Set("to", static_cast<int64_t>(DataType::kBfloat16));
  cast.inputs = {value};
  cast.device = product.device;
  cast.clone_index = product.clone_index;
  cast.node_id = product.node_id;
  TensorSpec spec = plan_.values[value].spec;
  spec.dtype = DataType::kBfloat16;
  known->second = plan_.AddValue(spec, static_cast<int>(plan_.steps.size()), 0);
  cast.outputs = {known->second};
  plan_.steps.push_back(std::move(cast));
  return known->second;
}

// The gradient of a convolution's bias is not a product: it sums dy without rounding.
absl::Status ProductRounding::TakeBiasOut(int gradient) {
  const PlanStep conv_grad = plan_.steps[gradient];
  if (conv_grad.attributes.GetString("activation", "none") != "none") {
    return absl::UnimplementedError(
        absl::StrCat("compute_dtype: ", conv_grad.name,
                     " is the gradient of a convolution with an activation of its own, which "
                     "is not supported with bfloat16; use a separate activation op"));
  }
  const int bias = conv_grad.outputs[2];
  PlanStep sum;
  sum.name = absl::StrCat(conv_grad.name, "/Bias");
  sum.op = "ReduceSum";
  sum.attributes.Set("axes", std::vector<int64_t>{0, 2, 3});
  sum.attributes.Set("keepdims", false);
  sum.inputs = {conv_grad.inputs[3]};
  sum.device = conv_grad.device;
  sum.clone_index = conv_grad.clone_index;
  sum.node_id = conv_grad.node_id;
  sum.gradient_of = conv_grad.gradient_of;
  const TensorSpec spec = plan_.values[bias].spec;
  const int result = plan_.AddValue(spec, static_cast<int>(plan_.steps.size()), 0);
  sum.outputs = {result};
  plan_.steps.push_back(std::move(sum));
  plan_.ReplaceUses(bias, result);
  return absl::OkStatus();
}

absl::Status ProductRounding::Run() {
  const int num_steps = static_cast<int>(plan_.steps.size());
  for (int s = 0; s < num_steps; ++s) {
    if (plan_.steps[s].is_removed) continue;
    const std::vector<size_t> factors = FactorsOf(plan_.steps[s].op);
    if (!factors.empty()) RETURN_IF_ERROR(CheckDevice(plan_.steps[s]));
    if (plan_.steps[s].op == "ConvGrad") RETURN_IF_ERROR(TakeBiasOut(s));
    for (size_t i : factors) {
      const int factor = Rounded(plan_.steps[s].inputs[i], s);
      plan_.steps[s].inputs[i] = factor;
    }
    // y is not read if there is no activation.
    if (plan_.steps[s].op == "ConvGrad") plan_.steps[s].inputs[2] = plan_.steps[s].inputs[3];
  }
  plan_.RemoveUnused();
  return absl::OkStatus();
}

}  // namespace

absl::Status RoundProducts(const DeviceBackends& backends, Plan* plan) {
  return ProductRounding(backends, plan).Run();
}

}  // namespace shoal
