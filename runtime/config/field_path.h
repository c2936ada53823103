// Sets a field of a message by its path, from text: `optimizer.adam.beta1=0.8`.
#ifndef SHOAL_RUNTIME_CONFIG_FIELD_PATH_H_
#define SHOAL_RUNTIME_CONFIG_FIELD_PATH_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace google {
namespace protobuf {
class Message;
}
}  // namespace google

namespace shoal {

// `path` consists of field names joined by dots. An element of a repeated message is chosen by its
// index, which must exist: `model.layer[1].dense.units`. Values are numbers, true/false, text
// without quotes, enum values by full or short name in any case
// (`data.format=synthetic_regression`), and comma lists, which replace a repeated field. A message
// as the last field takes text proto without braces: `optimizer.sgd=` selects it. InvalidArgument
// begins with `label` (e.g. "--set") and names the path, the expected value, and for an unknown
// field the nearest known one.
absl::Status SetField(absl::string_view label, absl::string_view path, absl::string_view value,
                      google::protobuf::Message* message);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_FIELD_PATH_H_
