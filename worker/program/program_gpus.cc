#include "worker/program/program_gpus.h"

#include "absl/algorithm/container.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"

namespace shoal {

const char kVisibleGpus[] = "CUDA_VISIBLE_DEVICES";

namespace {

// CUDA sees no GPU behind the first entry that is none, such as "-1" or "NoDevFiles".
std::vector<std::string> GpusIn(absl::string_view visible) {
  std::vector<std::string> gpus;
  for (const absl::string_view entry : absl::StrSplit(visible, ',')) {
    const absl::string_view gpu = absl::StripAsciiWhitespace(entry);
    const bool is_number = !gpu.empty() && absl::c_all_of(gpu, absl::ascii_isdigit);
    if (!is_number && !absl::StartsWith(gpu, "GPU-") && !absl::StartsWith(gpu, "MIG-")) break;
    gpus.emplace_back(gpu);
  }
  return gpus;
}

bool IsGpu(absl::string_view device) {
  return absl::ConsumePrefix(&device, "nvidia") && !device.empty() &&
         absl::c_all_of(device, absl::ascii_isdigit);
}

}  // namespace

std::vector<std::string> GpusHere(const FileSystem& file_system, const char* visible,
                                  const std::string& devices) {
  if (visible != nullptr) return GpusIn(visible);
  std::vector<std::string> gpus;
  const absl::StatusOr<std::vector<std::string>> names = file_system.List(devices);
  if (!names.ok()) return gpus;
  // CUDA numbers those that this process can open from 0, whatever their names are.
  for (const std::string& name : *names) {
    if (IsGpu(name)) gpus.push_back(absl::StrCat(gpus.size()));
  }
  return gpus;
}

std::optional<std::string> GpusOfProgram(const v1::DeploymentOptions& deployment,
                                         const std::optional<LocalWorker>& worker,
                                         uint32_t num_workers, absl::Span<const std::string> gpus) {
  if (deployment.clone_on_cpu()) return "-1";
  if (!worker.has_value() || worker->has_own_gpus || num_workers == 1 || gpus.size() < 2) {
    return std::nullopt;
  }
  return gpus[worker->index % gpus.size()];
}

}  // namespace shoal
