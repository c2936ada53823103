// Unpredictable random numbers from the system, for identities. Never use them for results that
// must be reproducible.
#ifndef SHOAL_BASE_SYSTEM_RANDOM_H_
#define SHOAL_BASE_SYSTEM_RANDOM_H_

#include <string>

namespace shoal {

// Returns 128 random bits as 32 hex digits.
std::string SystemRandomHex();

}  // namespace shoal

#endif  // SHOAL_BASE_SYSTEM_RANDOM_H_
