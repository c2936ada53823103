#include "ml/nn/layer_parts.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

namespace shoal {

GraphBuilder::Scope LayerScope(GraphBuilder& builder, const std::string& scope,
                               absl::string_view default_name) {
  return scope.empty() ? builder.WithDefaultVariableScope(default_name)
                       : builder.WithVariableScope(scope);
}

bool CheckInput(GraphBuilder& builder, Output x, int min_rank, int max_rank,
                absl::string_view wanted) {
  if (!builder.status().ok()) return false;
  if (x.valid() && x.shape().rank() >= min_rank && x.shape().rank() <= max_rank) return true;
  const std::string& scope = builder.variable_scope();
  builder.SetError(absl::InvalidArgumentError(
      absl::StrCat(scope, scope.empty() ? "" : ": ", "the layer needs ", wanted, ", has ",
                   x.valid() ? x.shape().ToString() : "no input")));
  return false;
}

bool CheckPositive(GraphBuilder& builder, absl::string_view field, int64_t value) {
  if (value > 0) return true;
  FailLayer(builder, field, absl::StrCat("must be positive, is ", value));
  return false;
}

void FailLayer(GraphBuilder& builder, absl::string_view field, absl::string_view message) {
  builder.SetError(absl::InvalidArgumentError(
      absl::StrCat(builder.variable_scope(), " ", field, ": ", message)));
}

Output MakeParameter(GraphBuilder& builder, const std::string& name, const TensorSpec& spec,
                     const InitializerSpec& initializer) {
  VariableSpec variable;
  variable.name = name;
  variable.shape = spec.shape;
  variable.dtype = spec.dtype;
  variable.initializer = initializer;
  return builder.GetVariable(std::move(variable));
}

}  // namespace shoal
