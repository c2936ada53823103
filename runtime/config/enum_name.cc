#include "runtime/config/enum_name.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "google/protobuf/descriptor.h"

namespace shoal {

std::string ShortEnumName(const google::protobuf::EnumValueDescriptor& value) {
  const std::string& zero = value.type()->value(0)->name();
  const size_t prefix = zero.rfind("UNSPECIFIED");
  return absl::AsciiStrToLower(value.name().substr(prefix == std::string::npos ? 0 : prefix));
}

const google::protobuf::EnumValueDescriptor* FindEnumValue(
    const google::protobuf::EnumDescriptor& type, absl::string_view name) {
  for (int i = 1; i < type.value_count(); ++i) {
    const google::protobuf::EnumValueDescriptor* value = type.value(i);
    if (name == value->name() || absl::EqualsIgnoreCase(name, ShortEnumName(*value))) return value;
  }
  return nullptr;
}

}  // namespace shoal
