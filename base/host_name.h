// The names that this machine has for itself.
#ifndef SHOAL_BASE_HOST_NAME_H_
#define SHOAL_BASE_HOST_NAME_H_

#include <string>

namespace shoal {

// Returns the name with its domain, if the system knows one; "" if it has none.
std::string HostName();

}  // namespace shoal

#endif  // SHOAL_BASE_HOST_NAME_H_
