// Parses text protos, with errors that name the field and the remedy.
#ifndef SHOAL_RUNTIME_CONFIG_TEXT_PROTO_H_
#define SHOAL_RUNTIME_CONFIG_TEXT_PROTO_H_

#include <cstdio>
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

// Parses the text into the message and replaces its contents; a field given twice is an error. Enum
// values may have their short names, see enum_values.h. InvalidArgument has one line, "FILE:LINE:
// what is wrong", with the field, and for an unknown field the nearest known one.
absl::Status ParseTextProto(absl::string_view text, absl::string_view file_name,
                            google::protobuf::Message* message);

// Merges the text of an argument named `source`: its fields replace those of the message; elements
// of lists are added. Errors have a line number only if the text has several lines.
absl::Status MergeTextProto(absl::string_view text, absl::string_view source,
                            google::protobuf::Message* message);

std::string PrintTextProto(const google::protobuf::Message& message);

using FileOpener = std::FILE* (*)(const char* path, const char* mode);

// Reads a whole file of at most 16 MiB. Errors name the field and the path: NotFound if there is no
// file, Unavailable if the error may pass (passing_errors.h), otherwise InvalidArgument. Tests give
// another function to open the file.
absl::StatusOr<std::string> ReadTextFile(absl::string_view field, const std::string& path,
                                         FileOpener open = &std::fopen);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_TEXT_PROTO_H_
