#include "ml/kernels/conformance_case_table.h"

#include <utility>

#include "absl/strings/str_cat.h"

#include "ml/kernels/reference/reference_kernels.h"

namespace shoal::conformance {

std::string NameOf(const Shape& shape) {
  std::string name;
  for (int64_t dim : shape.dims()) absl::StrAppend(&name, name.empty() ? "" : "x", dim);
  return name.empty() ? "scalar" : name;
}

Tensor CaseTable::Uniform(const Shape& shape, double low, double high) {
  std::uniform_real_distribution<float> values(static_cast<float>(low), static_cast<float>(high));
  Tensor tensor(F32(shape));
  for (float& v : tensor.mutable_span<float>()) v = values(random_);
  return tensor;
}

Tensor CaseTable::Labels(int64_t n, int64_t classes) {
  Tensor tensor(DataType::kInt32, {n});
  for (int32_t& v : tensor.mutable_span<int32_t>()) v = static_cast<int32_t>(Below(classes));
  return tensor;
}

Tensor CaseTable::ZeroOrOne(const Shape& shape) {
  Tensor tensor(F32(shape));
  for (float& v : tensor.mutable_span<float>()) v = static_cast<float>(Below(2));
  return tensor;
}

Tensor CaseTable::Booleans(const Shape& shape) {
  Tensor tensor(DataType::kBool, shape);
  for (bool& v : tensor.mutable_span<bool>()) v = Below(2) == 1;
  return tensor;
}

Tensor CaseTable::Distributions(const Shape& shape) {
  return Reference({"Softmax", {}, {Uniform(shape)}, {F32(shape)}})[0];
}

int64_t CaseTable::Below(int64_t bound) {
  return static_cast<int64_t>(random_() % static_cast<uint64_t>(bound));
}

std::vector<Tensor> CaseTable::Reference(const OpCall& call) {
  return RunOp(CreateReferenceKernel, call).value();
}

void CaseTable::Add(const std::string& what, OpCall call, double tolerance, double byte_mismatch) {
  cases_.push_back({absl::StrCat(call.op, "_", what), std::move(call), tolerance, byte_mismatch});
}

void CaseTable::AddNeedingFirstOutput(const std::string& what, OpCall call, double tolerance) {
  Add(what, std::move(call), tolerance);
  cases_.back().needs_first_output = true;
}

}  // namespace shoal::conformance
