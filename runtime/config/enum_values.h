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
  // The text with the full names of enum values; what it says stands on the same lines as before.
  std::string text;
  // Empty, or what is wrong: a field or a value that the message does not know, with those it
  // knows, or a message that is not closed. Everything else is left to protobuf's parser.
  std::string error;
  int error_line = 0;  // From 0.
};

// Reads the text proto of a message of this type up to the first error.
ExpandedText ExpandEnumValues(absl::string_view text, const google::protobuf::Descriptor& type);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_ENUM_VALUES_H_
