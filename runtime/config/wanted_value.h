// Describes the values that a field of a run file takes.
#ifndef SHOAL_RUNTIME_CONFIG_WANTED_VALUE_H_
#define SHOAL_RUNTIME_CONFIG_WANTED_VALUE_H_

#include <string>

#include "absl/strings/string_view.h"

namespace google::protobuf {
class FieldDescriptor;
}

namespace shoal {

// Returns "a whole number >= 0 of at most 32 bits is wanted, not "many"" for a field that is not a
// message.
std::string WantedValue(const google::protobuf::FieldDescriptor& field, absl::string_view text);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_WANTED_VALUE_H_
