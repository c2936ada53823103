// The name of the promise that a deliberately broken build does not keep; see break.py.
#ifndef SHOAL_TESTS_SIMULATION_BROKEN_H_
#define SHOAL_TESTS_SIMULATION_BROKEN_H_

#include <cstring>

namespace shoal {

// The broken promise's name; "" breaks none.
inline const char* broken_promise = "";

inline bool IsBroken(const char* name) { return std::strcmp(broken_promise, name) == 0; }

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_BROKEN_H_
