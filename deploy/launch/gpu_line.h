#ifndef SHOAL_DEPLOY_LAUNCH_GPU_LINE_H_
#define SHOAL_DEPLOY_LAUNCH_GPU_LINE_H_

#include <cstdint>
#include <string>

namespace shoal {

// The line of a worker's log that names the GPUs it can use.
struct GpuLine {
  std::string text;       // "GPUs: ..."; empty: there is none so far.
  bool may_come = false;  // The log is still short, so that the line may follow.
};

// Finds the line in which a worker logs which GPUs it can use (DescribeGpusFor). Reads only the
// first lines of its log from `begin` on.
GpuLine FindGpuLine(const std::string& log_path, uint64_t begin);

}  // namespace shoal

#endif  // SHOAL_DEPLOY_LAUNCH_GPU_LINE_H_
