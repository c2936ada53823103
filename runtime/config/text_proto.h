// Text protos with errors that people can act on.
#ifndef SHOAL_RUNTIME_CONFIG_TEXT_PROTO_H_
#define SHOAL_RUNTIME_CONFIG_TEXT_PROTO_H_

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace google {
namespace protobuf {
class Message;
}
}  // namespace google

namespace shoal {

// Replaces the message by what the text says; a field given twice is an error. Enum values may have
// their short names, see enum_values.h. InvalidArgument is one line: "FILE:LINE: what is wrong",
// with the field it is about, and for an unknown field the nearest known one.
absl::Status ParseTextProto(absl::string_view text, absl::string_view file_name,
                            google::protobuf::Message* message);

// The same for text that stands in an argument, named by `source`: its fields replace those of the
// message or, of lists, are added. The line is told only where there are several.
absl::Status MergeTextProto(absl::string_view text, absl::string_view source,
                            google::protobuf::Message* message);

std::string PrintTextProto(const google::protobuf::Message& message);

// A whole file of at most 16 MiB. NotFound or PermissionDenied name the field and the path.
absl::StatusOr<std::string> ReadTextFile(absl::string_view field, const std::string& path);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_TEXT_PROTO_H_
