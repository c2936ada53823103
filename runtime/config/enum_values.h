// Short names of enum values in text protos: `format: idx` for `format: FORMAT_IDX`.
#ifndef SHOAL_RUNTIME_CONFIG_ENUM_VALUES_H_
#define SHOAL_RUNTIME_CONFIG_ENUM_VALUES_H_

#include <string>

#include "absl/strings/string_view.h"

namespace google {
namespace protobuf {
class Descriptor;
}
}  // namespace google

namespace shoal {

struct ExpandedText {
  // The text with the full names of enum values. Every field stays on its line.
  std::string text;
  // Empty if nothing is wrong. Otherwise it names a field that the message does not have, a value
  // that the field does not take, each with those that there are, or a message that is not closed.
  // Protobuf's parser reports all other errors.
  std::string error;
  int error_line = 0;  // Counted from 0.
};

// Reads the text proto of a message of this type up to the first error.
ExpandedText ExpandEnumValues(absl::string_view text, const google::protobuf::Descriptor& type);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_ENUM_VALUES_H_
