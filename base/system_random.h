// Numbers that nobody can foretell, from the system: for identities, never for anything that must
// be computed again.
#ifndef SHOAL_BASE_SYSTEM_RANDOM_H_
#define SHOAL_BASE_SYSTEM_RANDOM_H_

#include <string>

namespace shoal {

// 128 random bits as 32 hex digits.
std::string SystemRandomHex();

}  // namespace shoal

#endif  // SHOAL_BASE_SYSTEM_RANDOM_H_
