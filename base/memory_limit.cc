#include "base/memory_limit.h"

#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace shoal {
namespace {

// Files of one version of cgroups.
struct CgroupFiles {
  const char* mount;
  const char* limit;
  const char* usage;
  // The fields of memory.stat with the page cache, which the kernel takes back by itself.
  const char* inactive_cache;
  const char* active_cache;
};
constexpr CgroupFiles kVersion1 = {"/sys/fs/cgroup/memory", "memory.limit_in_bytes",
                                   "memory.usage_in_bytes", "total_inactive_file",
                                   "total_active_file"};
constexpr CgroupFiles kVersion2 = {"/sys/fs/cgroup", "memory.max", "memory.current",
                                   "inactive_file", "active_file"};
constexpr CgroupFiles kHybrid2 = {"/sys/fs/cgroup/unified", "memory.max", "memory.current",
                                  "inactive_file", "active_file"};
// Version 1 says "no limit" with a number just below 2^63.
constexpr uint64_t kNoLimit = uint64_t{1} << 60;

std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// The first number after `name` at the beginning of a line, in the line's unit.
std::optional<uint64_t> Field(absl::string_view text, absl::string_view name) {
  for (const absl::string_view line : absl::StrSplit(text, '\n')) {
    if (!absl::StartsWith(line, name)) continue;
    const std::vector<std::string> words =
        absl::StrSplit(line.substr(name.size()), absl::ByAnyChar(" \t"), absl::SkipEmpty());
    uint64_t number = 0;
    if (!words.empty() && absl::SimpleAtoi(words[0], &number)) return number;
  }
  return std::nullopt;
}

std::optional<uint64_t> NumberIn(const std::string& path) {
  uint64_t number = 0;
  if (absl::SimpleAtoi(absl::StripAsciiWhitespace(ReadText(path)), &number)) return number;
  return std::nullopt;
}

// Takes the limits of the cgroup `path` and of those above it.
void Lower(const std::string& root, const CgroupFiles& files, std::string path,
           MemoryLimit* limit) {
  while (true) {
    // A container sees its own cgroup at the mount, whatever path the host knows it by: what is
    // not there is passed over.
    const std::string directory = absl::StrCat(root, files.mount, path == "/" ? "" : path, "/");
    const std::optional<uint64_t> most = NumberIn(directory + files.limit);
    if (most.has_value() && *most < kNoLimit) {
      if (*most < limit->bytes) {
        limit->bytes = *most;
        limit->set_by = absl::StrCat("the cgroup ", path);
      }
      const uint64_t usage = NumberIn(directory + files.usage).value_or(0);
      const std::string stat = ReadText(directory + "memory.stat");
      // Files that were read more than once are active. MemAvailable counts them as well.
      const uint64_t cache = Field(stat, absl::StrCat(files.inactive_cache, " ")).value_or(0) +
                             Field(stat, absl::StrCat(files.active_cache, " ")).value_or(0);
      const uint64_t used = usage - std::min(usage, cache);
      limit->available = std::min(limit->available, *most - std::min(*most, used));
    }
    if (path == "/" || path.empty()) return;
    path = path.substr(0, path.rfind('/'));
    if (path.empty()) path = "/";
  }
}

void LowerToCgroups(const std::string& root, MemoryLimit* limit) {
  // Lines: NUMBER:CONTROLLERS:PATH; version 2 has no controllers.
  const std::string cgroups = ReadText(root + "/proc/self/cgroup");
  for (const absl::string_view line : absl::StrSplit(cgroups, '\n')) {
    const std::vector<std::string> parts = absl::StrSplit(line, absl::MaxSplits(':', 2));
    if (parts.size() != 3) continue;
    if (parts[1].empty()) {
      Lower(root, kVersion2, parts[2], limit);
      Lower(root, kHybrid2, parts[2], limit);
    }
    const std::vector<std::string> controllers = absl::StrSplit(parts[1], ',');
    if (std::find(controllers.begin(), controllers.end(), "memory") != controllers.end()) {
      Lower(root, kVersion1, parts[2], limit);
    }
  }
}

// Returns memory that this process uses now, in bytes: a field of its status.
uint64_t OwnMemory(const std::string& root, absl::string_view field) {
  return Field(ReadText(root + "/proc/self/status"), field).value_or(0) << 10;
}

}  // namespace

MemoryLimit ReadMemoryLimit(const std::string& root) {
  const std::string machine = ReadText(root + "/proc/meminfo");
  MemoryLimit limit;
  if (const auto total = Field(machine, "MemTotal:"); total.has_value()) {
    limit.bytes = *total << 10;
    limit.set_by = "the machine";
  }
  if (const auto available = Field(machine, "MemAvailable:"); available.has_value()) {
    limit.available = *available << 10;
  }
  LowerToCgroups(root, &limit);
  if (limit.available != UINT64_MAX) {
    limit.available = std::min(limit.available + OwnMemory(root, "VmRSS:"), limit.bytes);
  }
  return limit;
}

uint64_t ReadAnonymousMemory(const std::string& root) { return OwnMemory(root, "RssAnon:"); }

}  // namespace shoal
