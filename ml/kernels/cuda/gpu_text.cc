#include "ml/kernels/cuda/gpu_text.h"

#include <algorithm>
#include <set>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace shoal::cuda {
namespace {

constexpr int kMajor = 1000;

}  // namespace

std::string VersionText(int version) {
  return absl::StrCat(version / kMajor, ".", version % kMajor / 10);
}

std::string WhyNoGpus(int driver, int runtime, absl::string_view error) {
  if (driver == 0) return "this machine has no NVIDIA driver";
  // A driver supports the later minor versions of its major version too.
  if (driver / kMajor < runtime / kMajor) {
    return absl::StrCat("the driver is for CUDA ", VersionText(driver),
                        " and older, and this program needs ", runtime / kMajor, ".0");
  }
  return error.empty() ? "CUDA finds none" : absl::StrCat("CUDA says: ", error);
}

std::string CountedModels(const std::vector<std::string>& models) {
  std::vector<std::string> parts;
  std::set<std::string> seen;
  for (const std::string& model : models) {
    if (!seen.insert(model).second) continue;
    const auto count = std::count(models.begin(), models.end(), model);
    parts.push_back(model.empty() ? absl::StrCat(count, count == 1 ? " GPU" : " GPUs")
                                  : absl::StrCat(count, " x ", model));
  }
  return absl::StrJoin(parts, ", ");
}

std::string DistinctModels(const std::vector<std::string>& models) {
  std::set<std::string> distinct;
  for (const std::string& model : models) distinct.insert(model.empty() ? "GPU" : model);
  return absl::StrJoin(distinct, " and ");
}

}  // namespace shoal::cuda
