// The version of the messages between tasks and of their meaning. Tasks of one run may be different
// programs (a worker with its own model). The chief refuses a task with another version, and a
// launcher refuses such a program before it starts any task.
#ifndef SHOAL_RUNTIME_PROCESS_PROTOCOL_VERSION_H_
#define SHOAL_RUNTIME_PROCESS_PROTOCOL_VERSION_H_

#include <cstdint>

namespace shoal {

// Raise it with every change that an older program would handle wrongly.
inline constexpr uint32_t kProtocolVersion = 3;

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_PROTOCOL_VERSION_H_
