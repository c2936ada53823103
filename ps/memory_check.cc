#include "ps/memory_check.h"

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace shoal {
namespace {

constexpr uint64_t kCopiesOfAValue = 4;

}  // namespace

uint64_t AvailableMemory(absl::string_view meminfo) {
  for (const absl::string_view line : absl::StrSplit(meminfo, '\n')) {
    if (!absl::StartsWith(line, "MemAvailable:")) continue;
    const std::vector<std::string> words = absl::StrSplit(line, ' ', absl::SkipEmpty());
    uint64_t kibibytes = 0;
    if (words.size() >= 2 && absl::SimpleAtoi(words[1], &kibibytes)) return kibibytes << 10;
  }
  return UINT64_MAX;
}

absl::Status CheckMemory(const SliceTable& table, absl::Span<const uint32_t> owned,
                         uint64_t available_bytes) {
  uint64_t bytes = 0;
  for (const uint32_t slice : owned) bytes += kCopiesOfAValue * table[slice].num_bytes();
  if (bytes <= available_bytes) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("the variables of this ps need about ", bytes >> 20, " MiB, the machine has ",
                   available_bytes >> 20, " MiB; use more ps tasks or larger machines"));
}

absl::Status CheckMemory(const SliceTable& table, absl::Span<const uint32_t> owned) {
  std::ifstream file("/proc/meminfo");
  std::stringstream text;
  text << file.rdbuf();
  return CheckMemory(table, owned, AvailableMemory(text.str()));
}

}  // namespace shoal
