// The name of this machine.
#ifndef SHOAL_BASE_HOST_NAME_H_
#define SHOAL_BASE_HOST_NAME_H_

#include <string>

namespace shoal {

// Returns the host name, with its domain if the system knows one; "" if the machine has no name.
std::string HostName();

}  // namespace shoal

#endif  // SHOAL_BASE_HOST_NAME_H_
