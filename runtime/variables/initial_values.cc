#include "runtime/variables/initial_values.h"

#include "absl/strings/str_cat.h"

#include "base/status_macros.h"
#include "ml/tensor/initializer.h"
#include "proto/v1/variable.pb.h"

namespace shoal {

absl::Status FillInitialValues(const v1::VariableSpec& variable, uint64_t seed, uint64_t begin,
                               uint64_t end, float* values) {
  InitializerSpec spec;
  if (variable.initializer().kind() != v1::Initializer::KIND_UNSPECIFIED) {
    spec.kind = static_cast<InitializerKind>(variable.initializer().kind());
  }
  spec.a = variable.initializer().a();
  spec.b = variable.initializer().b();
  if (absl::Status status = ValidateInitializer(spec); !status.ok()) {
    return absl::InvalidArgumentError(
        absl::StrCat("variable \"", variable.name(), "\": ", status.message()));
  }
  InitializeRange(spec, seed, VariableNameHash(variable.name()), begin, end, values);
  return absl::OkStatus();
}

absl::Status InitialValues::Fill(uint32_t slice, Contents* contents) {
  const Slice& cut = table_[slice];
  RETURN_IF_ERROR(FillInitialValues(variables_[cut.variable], seed_, cut.first_element,
                                    cut.first_element + cut.num_elements, contents->value.data()));
  contents->slots_follow_value = true;
  return absl::OkStatus();
}

}  // namespace shoal
