// Describes a name in a run file or a --set that is not a field of its message.
#ifndef SHOAL_RUNTIME_CONFIG_UNKNOWN_FIELD_H_
#define SHOAL_RUNTIME_CONFIG_UNKNOWN_FIELD_H_

#include <string>

namespace google::protobuf {
class Descriptor;
}

namespace shoal {

// Returns "RunConfig has no field "x"" and what the user may have meant: a field of that name in a
// message below `type`, a similar name, or else all names. `before` is the path of the message in
// the run file, followed by a dot; "" for the whole run file, or if the path is unknown.
std::string UnknownField(const google::protobuf::Descriptor& type, const std::string& name,
                         const std::string& before);

}  // namespace shoal

#endif  // SHOAL_RUNTIME_CONFIG_UNKNOWN_FIELD_H_
