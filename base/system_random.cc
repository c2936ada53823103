#include "base/system_random.h"

#include <sys/random.h>

#include <cstdint>

#include "absl/strings/str_format.h"

#include "base/log.h"

namespace shoal {

std::string SystemRandomHex() {
  uint64_t words[2];
  CHECK(getrandom(words, sizeof(words), 0) == sizeof(words)) << "the system has no random numbers";
  return absl::StrFormat("%016x%016x", words[0], words[1]);
}

}  // namespace shoal
