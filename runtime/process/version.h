// The version that `shoal --version` prints.
#ifndef SHOAL_RUNTIME_PROCESS_VERSION_H_
#define SHOAL_RUNTIME_PROCESS_VERSION_H_

namespace shoal {

inline constexpr char kVersion[] = "1.0";

}  // namespace shoal

#endif  // SHOAL_RUNTIME_PROCESS_VERSION_H_
