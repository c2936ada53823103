// Lets a deliberately broken build violate one of the rules that the simulation checks; see
// break.py.
#ifndef SHOAL_TESTS_SIMULATION_BROKEN_H_
#define SHOAL_TESTS_SIMULATION_BROKEN_H_

#include <cstring>

namespace shoal {

// The name of the rule to violate; "": none.
inline const char* broken_promise = "";

inline bool IsBroken(const char* name) { return std::strcmp(broken_promise, name) == 0; }

}  // namespace shoal

#endif  // SHOAL_TESTS_SIMULATION_BROKEN_H_
