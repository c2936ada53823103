#include "runtime/observability/process_metrics.h"

#include <dirent.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"

#include "base/memory_limit.h"
#include "runtime/observability/metric_page.h"

namespace shoal {
namespace {

// "" if it cannot be read.
std::string Contents(const char* path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// Field `number` of proc(5)'s stat, from 1, of those behind the command's name.
double StatField(const std::vector<std::string>& fields, size_t number) {
  constexpr size_t kFirst = 3;  // the state
  double value = 0;
  if (number >= kFirst + fields.size()) return 0;
  return absl::SimpleAtod(fields[number - kFirst], &value) ? value : 0;
}

double BootTime() {
  std::ifstream file("/proc/stat");
  std::string word;
  while (file >> word) {
    double seconds = 0;
    if (word == "btime" && file >> seconds) return seconds;
  }
  return 0;
}

double NumOpenFiles() {
  DIR* directory = opendir("/proc/self/fd");
  if (directory == nullptr) return 0;
  int count = -3;  // ".", ".." and the directory itself
  while (readdir(directory) != nullptr) ++count;
  closedir(directory);
  return count;
}

}  // namespace

void AddProcessMetrics(MetricPage* page) {
  const std::string stat = Contents("/proc/self/stat");
  const size_t name_end = stat.rfind(')');  // The name may hold blanks.
  if (name_end == std::string::npos) return;
  const std::vector<std::string> fields =
      absl::StrSplit(absl::string_view(stat).substr(name_end + 1), ' ', absl::SkipEmpty());
  const auto ticks = static_cast<double>(sysconf(_SC_CLK_TCK));
  page->AddCounter("process_cpu_seconds_total", "Processor time that the process has used.",
                   (StatField(fields, 14) + StatField(fields, 15)) / ticks);
  page->AddGauge("process_threads", "Threads of the process.", StatField(fields, 20));
  page->AddGauge("process_start_time_seconds", "When the process began, in Unix time.",
                 BootTime() + StatField(fields, 22) / ticks);
  page->AddGauge("process_virtual_memory_bytes", "Address space of the process.",
                 StatField(fields, 23));
  page->AddGauge("process_resident_memory_bytes", "Memory that the process holds.",
                 StatField(fields, 24) * static_cast<double>(sysconf(_SC_PAGESIZE)));
  page->AddGauge("process_open_fds", "Files that the process has open.", NumOpenFiles());
  rlimit files = {};
  if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
    page->AddGauge("process_max_fds", "Files that it may have open.",
                   static_cast<double>(files.rlim_cur));
  }
  page->AddGauge("shoal_memory_limit_bytes",
                 "Memory that the process may use: of its control group, or of the machine.",
                 static_cast<double>(ReadMemoryLimit().bytes));
}

}  // namespace shoal
