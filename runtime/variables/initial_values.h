#ifndef SHOAL_RUNTIME_VARIABLES_INITIAL_VALUES_H_
#define SHOAL_RUNTIME_VARIABLES_INITIAL_VALUES_H_

#include <cstdint>

#include "absl/status/status.h"
#include "absl/types/span.h"

#include "runtime/plan/slice_table.h"
#include "runtime/variables/slice_source.h"

namespace shoal {

namespace v1 {
class VariableSpec;
}

// Computes elements [begin, end) of the variable's version 0. InvalidArgument names the variable
// whose initializer is not valid.
absl::Status FillInitialValues(const v1::VariableSpec& variable, uint64_t seed, uint64_t begin,
                               uint64_t end, float* values);

// The source of version 0. Every slice is computed from its variable's spec and the seed alone, so
// the values do not depend on the number of ps.
class InitialValues : public SliceSource {
 public:
  // Borrows specs and table.
  InitialValues(absl::Span<const v1::VariableSpec> variables, const SliceTable& table,
                uint64_t seed)
      : variables_(variables), table_(table), seed_(seed) {}

  // InvalidArgument names the variable whose initializer is not valid.
  absl::Status Fill(uint32_t slice, Contents* contents) override;

 private:
  const absl::Span<const v1::VariableSpec> variables_;
  const SliceTable& table_;
  const uint64_t seed_;
};

}  // namespace shoal

#endif  // SHOAL_RUNTIME_VARIABLES_INITIAL_VALUES_H_
