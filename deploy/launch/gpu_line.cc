#include "deploy/launch/gpu_line.h"

#include <fstream>

namespace shoal {
namespace {

// A worker logs the line before it reads its data; a model of its own may print before that.
constexpr int kFirstLines = 100;
constexpr char kWords[] = "] GPUs: ";  // After the head of a log line.

}  // namespace

GpuLine FindGpuLine(const std::string& log_path, uint64_t begin) {
  GpuLine found;
  std::ifstream log(log_path);
  log.seekg(static_cast<std::streamoff>(begin));
  std::string line;
  for (int i = 0; i < kFirstLines; ++i) {
    found.may_come = !std::getline(log, line) || log.eof();  // It may be half written.
    if (found.may_come) return found;
    const size_t at = line.find(kWords);
    if (at == std::string::npos) continue;
    found.text = line.substr(at + 2);
    return found;
  }
  return found;
}

}  // namespace shoal
