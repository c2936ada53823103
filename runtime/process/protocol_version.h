// The version of the messages, and of their meaning, that a program speaks. Tasks of one run may be
// different programs (a worker with a model of its own): the chief refuses another version, and so
// does a launcher before it starts anything.
#ifndef SHOAL_RUNTIME_PROCESS_PROTOCOL_VERSION_H_
#define SHOAL_RUNTIME_PROCESS_PROTOCOL_VERSION_H_

#include <cstdint>

namespace shoal {

// Raise it with every change after which an older program would do something wrong.
inline constexpr uint32_t kProtocolVersion = 2;

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_PROTOCOL_VERSION_H_
