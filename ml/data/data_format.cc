#include "ml/data/data_format.h"

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/status_macros.h"

namespace shoal {
namespace {

using Names = std::vector<std::string>;

bool Has(const Names& names, const char* name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool HasIdx(const Names& names) {
  for (const char* name :
       {"train-images-idx3-ubyte", "train-labels-idx1-ubyte", "t10k-images-idx3-ubyte"}) {
    if (Has(names, name) || Has(names, absl::StrCat(name, ".gz").c_str())) return true;
  }
  return false;
}

bool IsTfRecord(absl::string_view name, absl::string_view split) {
  if (!absl::ConsumePrefix(&name, split)) return false;
  return absl::StrContains(name, ".tfrecord") ||
         (absl::StartsWith(name, "-") && absl::StrContains(name, "-of-"));
}

bool HasTfRecord(const Names& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return IsTfRecord(name, "train"); });
}

}  // namespace

absl::StatusOr<v1::DataConfig::Format> DetectDataFormat(const std::string& directory) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const absl::StatusOr<Names> names = files->List(directory);
  if (!names.ok()) {
    return absl::Status(names.status().code(),
                        absl::StrCat("data.directory: ", names.status().message()));
  }
  const absl::StatusOr<FileInfo> train = files->GetInfo(JoinPath(directory, "train"));
  std::vector<std::pair<v1::DataConfig::Format, std::string>> found;
  if (train.ok() && train->is_directory)
    found.push_back({v1::DataConfig::FORMAT_IMAGE_FOLDER, "image_folder"});
  if (HasIdx(*names)) found.push_back({v1::DataConfig::FORMAT_IDX, "idx"});
  if (Has(*names, "data_batch_1.bin")) found.push_back({v1::DataConfig::FORMAT_CIFAR10, "cifar10"});
  if (Has(*names, "train.bin")) found.push_back({v1::DataConfig::FORMAT_CIFAR100, "cifar100"});
  if (Has(*names, "train.csv")) found.push_back({v1::DataConfig::FORMAT_CSV, "csv"});
  if (Has(*names, "x_train.npy")) found.push_back({v1::DataConfig::FORMAT_NPY, "npy"});
  if (HasTfRecord(*names)) found.push_back({v1::DataConfig::FORMAT_TFRECORD, "tfrecord"});
  if (found.size() == 1) return found[0].first;
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "data.directory: ", directory,
        " holds no data set: neither train/<class>/ with images nor train-images-idx3-ubyte.gz, "
        "data_batch_1.bin, train.bin, train.csv, x_train.npy or train*.tfrecord"));
  }
  const std::string list = absl::StrJoin(
      found, ", ", [](std::string* out, const auto& format) { *out += format.second; });
  return absl::FailedPreconditionError(
      absl::StrCat("data.format: ", directory, " holds data of several formats (", list,
                   "); name one, as in --set data.format=", found[0].second));
}

absl::StatusOr<std::vector<std::string>> TfRecordPaths(const std::string& directory,
                                                       absl::string_view split) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  ASSIGN_OR_RETURN(const Names names, files->List(directory));
  std::vector<std::string> paths;
  for (const std::string& name : names) {
    if (IsTfRecord(name, split)) paths.push_back(JoinPath(directory, name));
  }
  if (!paths.empty()) return paths;
  return absl::NotFoundError(absl::StrCat("data.directory: ", directory, " holds no ", split,
                                          "*.tfrecord* and no ", split,
                                          "-00000-of-00001; name the files so"));
}

}  // namespace shoal
