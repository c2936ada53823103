// Names that users of other training systems type out of habit. A part of flags.cc.
#ifndef SHOAL_RUNTIME_CONFIG_FOREIGN_FLAGS_H_
#define SHOAL_RUNTIME_CONFIG_FOREIGN_FLAGS_H_

#include <cstdint>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

namespace shoal {

struct ForeignFlag {
  const char* name;
  uint32_t scopes;     // The commands for which `ours` is right, as bits of FlagScope.
  const char* system;  // "TF-Slim"
  const char* ours;    // The flag to use instead, with its dashes, or another way.
};

// Returns all entries. A name has one for each set of commands that have another answer; the first
// one that fits a command counts.
absl::Span<const ForeignFlag> ForeignFlags();

// Returns the entry of a flag that programs or launchers of other systems have under this name,
// whose words may be joined by '-' or '_', for the command that has `scope`; null if the name has
// no answer there.
const ForeignFlag* FindForeignFlag(uint32_t scope, absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_FOREIGN_FLAGS_H_
