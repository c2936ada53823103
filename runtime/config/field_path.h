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

// `path` is field names joined by dots; an element of a repeated message is chosen by its index,
// `model.layer[1].dense.units`, which must exist. Values: numbers, true/false, text without quotes,
// enum values by full name or by what follows the common prefix in any case
// (`data.format=synthetic_regression`), and comma lists for repeated fields (they replace what was
// there). A message as the last field takes text proto without braces: `optimizer.sgd=` selects it.
// InvalidArgument begins with `label` (e.g. "--set") and names the path, what is wanted, and for an
// unknown field the nearest known one.
absl::Status SetField(absl::string_view label, absl::string_view path, absl::string_view value,
                      google::protobuf::Message* message);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_FIELD_PATH_H_
