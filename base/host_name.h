// What this machine calls itself.
#ifndef SHOAL_BASE_HOST_NAME_H_
#define SHOAL_BASE_HOST_NAME_H_

#include <string>

namespace shoal {

// With its domain, if the system is told one; "" if it has none.
std::string HostName();

}  // namespace shoal

#endif  // SHOAL_BASE_HOST_NAME_H_
