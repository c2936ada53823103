// The short names of enum values that users write: "relu" for ACTIVATION_KIND_RELU.
#ifndef SHOAL_RUNTIME_CONFIG_ENUM_NAME_H_
#define SHOAL_RUNTIME_CONFIG_ENUM_NAME_H_

#include <string>

#include "absl/strings/string_view.h"

namespace google {
namespace protobuf {
class EnumDescriptor;
class EnumValueDescriptor;
}  // namespace protobuf
}  // namespace google

namespace shoal {

// Returns the name without the prefix that all values of the type share, in lower case.
std::string ShortEnumName(const google::protobuf::EnumValueDescriptor& value);

// Returns the value with this full name, or with this short name in any case; null if there is
// none. The UNSPECIFIED value has no short name.
const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor& type, absl::string_view name);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_ENUM_NAME_H_
