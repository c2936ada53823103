#include "worker/program/program_layout.h"

#include "worker/program/program_declaration.h"

namespace shoal {
namespace {

constexpr uint64_t kArrayAlignment = 64;
constexpr uint64_t kSetAlignment = 4096;

uint64_t RoundUp(uint64_t bytes, uint64_t alignment) {
  return (bytes + alignment - 1) / alignment * alignment;
}

}  // namespace

ProgramLayout LayOut(absl::Span<const v1::VariableSpec> variables) {
  ProgramLayout layout;
  layout.places.resize(variables.size());
  uint64_t end = 0;
  for (uint32_t set = 0; set < ProgramLayout::kSets; ++set) {
    for (size_t v = 0; v < variables.size(); ++v) {
      // Every variable has a place among the contributions, because initial values are written
      // there.
      layout.places[v].parameters[set] = end;
      layout.places[v].contributions[set] = end;
      end = RoundUp(end + NumElements(variables[v]) * sizeof(float), kArrayAlignment);
    }
    end = RoundUp(end, kSetAlignment);
  }
  layout.parameter_bytes = end;
  layout.contribution_bytes = end;
  return layout;
}

}  // namespace shoal
