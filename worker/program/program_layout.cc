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

uint64_t AlignedArray(uint64_t bytes) { return RoundUp(bytes, kArrayAlignment); }

ProgramLayout LayOut(absl::Span<const v1::VariableSpec> variables, bool has_tables) {
  ProgramLayout layout;
  layout.places.resize(variables.size());
  uint64_t end = 0;
  for (uint32_t set = 0; set < ProgramLayout::kSets; ++set) {
    for (size_t v = 0; v < variables.size(); ++v) {
      // Every variable has a place among the contributions, because initial values are written
      // there.
      layout.places[v].parameters[set] = end;
      layout.places[v].contributions[set] = end;
      end += AlignedArray(NumElements(variables[v]) * sizeof(float));
    }
    end = RoundUp(end, kSetAlignment);
  }
  layout.rows = end;
  layout.row_bytes = has_tables ? ProgramLayout::kRowBytes : 0;
  end += layout.row_bytes;
  layout.parameter_bytes = end;
  layout.contribution_bytes = end;
  return layout;
}

}  // namespace shoal
