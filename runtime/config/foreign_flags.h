// Names that users of other training systems type out of habit.
#ifndef SHOAL_RUNTIME_CONFIG_FOREIGN_FLAGS_H_
#define SHOAL_RUNTIME_CONFIG_FOREIGN_FLAGS_H_

#include "absl/strings/string_view.h"

namespace shoal {

struct ForeignFlag {
  const char* name;
  const char* system;  // "TF-Slim"
  const char* ours;    // The flag to use instead, with its dashes, or another way.
};

// Returns the entry of a flag that TF-Slim, TensorFlow, Keras or PyTorch programs have under this
// name; null if the name is not known.
const ForeignFlag* FindForeignFlag(absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_FOREIGN_FLAGS_H_
