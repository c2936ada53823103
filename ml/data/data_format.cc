#include "ml/data/data_format.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/status_macros.h"
#include "ml/data/data_defaults.h"
#include "ml/data/ids/id_options.h"
#include "ml/data/image_folder.h"

namespace shoal {
namespace {

using Names = std::vector<std::string>;

// Text files may be compressed.
constexpr const char* kCompressions[] = {"", ".gz", ".zst"};

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

// Returns whether the name is that of the text file, or of that file compressed.
bool IsText(absl::string_view name, absl::string_view file) {
  return absl::ConsumePrefix(&name, file) &&
         std::find(std::begin(kCompressions), std::end(kCompressions), name) !=
             std::end(kCompressions);
}

bool IsTfRecord(absl::string_view name, absl::string_view split) {
  if (!absl::ConsumePrefix(&name, split)) return false;
  return absl::StrContains(name, ".tfrecord") ||
         (absl::StartsWith(name, "-") && absl::StrContains(name, "-of-"));
}

// Returns why the directory cannot be read.
absl::Status Unreadable(FileSystem& files, const std::string& directory,
                        const absl::Status& status) {
  if (absl::IsNotFound(status)) {
    return absl::NotFoundError(absl::StrCat(
        "data.directory: ",
        directory == kDefaultDataDirectory ? "is not given, and its default is not there: " : "",
        "there is no directory ", directory, "; name that of the data set with --data_dir=DIR"));
  }
  const absl::StatusOr<FileInfo> info = files.GetInfo(directory);
  if (info.ok() && !info->is_directory) {
    return absl::FailedPreconditionError(
        absl::StrCat("data.directory: ", directory,
                     " is a file; name the directory that holds the data with --data_dir=DIR"));
  }
  return absl::Status(status.code(), absl::StrCat("data.directory: ", status.message(),
                                                  "; name another directory with --data_dir=DIR"));
}

// "idx"
std::string FormatName(v1::DataConfig::Format format) {
  const std::string name = v1::DataConfig::Format_Name(format);
  return absl::AsciiStrToLower(absl::StripPrefix(name, "FORMAT_"));
}

struct FieldOfFormats {
  const char* path;                             // The name of the field in DataConfig.
  bool is_given;                                // The configuration sets the field.
  std::vector<v1::DataConfig::Format> formats;  // The formats whose readers use the field.
};

std::vector<FieldOfFormats> FieldsOfFormats(const v1::DataConfig& config) {
  using Config = v1::DataConfig;
  const v1::CsvOptions& csv = config.csv();
  const v1::TfRecordOptions& tf_record = config.tfrecord();
  return {{"features",
           config.features() != 0,
           {Config::FORMAT_SYNTHETIC_REGRESSION, Config::FORMAT_SYNTHETIC_CLASSIFICATION}},
          {"target_columns", config.target_columns() != 0, {Config::FORMAT_SYNTHETIC_REGRESSION}},
          {"clicks", config.has_clicks(), {Config::FORMAT_CLICKS_SYNTHETIC}},
          {"csv.label", !csv.label().empty(), {Config::FORMAT_CSV}},
          {"csv.no_header", csv.no_header(), {Config::FORMAT_CSV}},
          {"csv.delimiter", !csv.delimiter().empty(), {Config::FORMAT_CSV}},
          {"csv.regression", csv.regression(), {Config::FORMAT_CSV}},
          {"csv.empty_number", csv.has_empty_number(), {Config::FORMAT_CSV}},
          {"ids",
           config.ids_size() > 0,
           {Config::FORMAT_CSV, Config::FORMAT_NPY, Config::FORMAT_TFRECORD}},
          {"numbers", config.numbers_size() > 0, {Config::FORMAT_CSV, Config::FORMAT_TFRECORD}},
          {"tfrecord.input", !tf_record.input().empty(), {Config::FORMAT_TFRECORD}},
          {"tfrecord.label", !tf_record.label().empty(), {Config::FORMAT_TFRECORD}}};
}

bool HasTfRecord(const Names& names) {
  return std::any_of(names.begin(), names.end(),
                     [](const std::string& name) { return IsTfRecord(name, "train"); });
}

struct FoundFormat {
  v1::DataConfig::Format format;
  std::string file;  // The file or folder that tells it.
};

// Adds the format if there is a text file with this name, which may be compressed.
void FindText(const Names& names, absl::string_view file, v1::DataConfig::Format format,
              std::vector<FoundFormat>* found) {
  for (const std::string& name : names) {
    if (!IsText(name, file)) continue;
    found->push_back({format, name});
    return;
  }
}

// Returns the formats of the training splits in a directory with these names.
absl::StatusOr<std::vector<FoundFormat>> FormatsIn(const FileSystem& files,
                                                   const std::string& directory,
                                                   const Names& names) {
  std::vector<FoundFormat> found;
  ASSIGN_OR_RETURN(const bool has_folders, IsDirectory(files, JoinPath(directory, "train")));
  if (has_folders) found.push_back({v1::DataConfig::FORMAT_IMAGE_FOLDER, "train/"});
  if (HasIdx(names)) found.push_back({v1::DataConfig::FORMAT_IDX, "*-ubyte"});
  if (Has(names, "data_batch_1.bin")) {
    found.push_back({v1::DataConfig::FORMAT_CIFAR10, "data_batch_1.bin"});
  }
  if (Has(names, "train.bin")) found.push_back({v1::DataConfig::FORMAT_CIFAR100, "train.bin"});
  FindText(names, "train.csv", v1::DataConfig::FORMAT_CSV, &found);
  for (const char* file : {"x_train.npy", "y_train.npy"}) {  // ids may have no numbers beside them
    if (!Has(names, file)) continue;
    found.push_back({v1::DataConfig::FORMAT_NPY, file});
    break;
  }
  FindText(names, "train.tsv", v1::DataConfig::FORMAT_CRITEO, &found);
  if (HasTfRecord(names)) found.push_back({v1::DataConfig::FORMAT_TFRECORD, "train*.tfrecord*"});
  return found;
}

// Returns ": what to do" with a directory in which there is no data set, if its names give a hint.
std::string HintFor(const FileSystem& files, const std::string& directory, const Names& names) {
  for (const std::string& name : names) {
    const std::string path = JoinPath(directory, name);
    const absl::StatusOr<Names> below = files.List(path);
    if (below.ok()) {
      const absl::StatusOr<std::vector<FoundFormat>> found = FormatsIn(files, path, *below);
      if (found.ok() && !found->empty()) {
        return absl::StrCat("; ", path, " holds ", FormatName((*found)[0].format),
                            ": give --data_dir=", path);
      }
      if (std::any_of(below->begin(), below->end(), IsImageName)) {
        return absl::StrCat("; ", path, " holds images: move such folders into ",
                            JoinPath(directory, "train"));
      }
    }
    if (absl::EndsWith(name, ".csv")) {
      return absl::StrCat("; rename the table ", path, " to train.csv");
    }
    if (absl::EndsWith(name, ".npy")) {
      return absl::StrCat("; rename arrays such as ", path, " to x_train.npy and y_train.npy");
    }
    if (name == "data_batch_1") {
      return absl::StrCat("; ", path, " is of CIFAR's version for Python: take the binary version");
    }
    if (IsImageName(name)) {
      return absl::StrCat("; move images such as ", path, " into ",
                          JoinPath(directory, "train/CLASS/"));
    }
  }
  return "; name one that does with --data_dir=DIR";
}

// Returns "; it wants THESE FILES", for a format of files.
std::string WantedFiles(v1::DataConfig::Format format) {
  switch (format) {
    case v1::DataConfig::FORMAT_IDX:
      return "; it wants train-images-idx3-ubyte and train-labels-idx1-ubyte, or those with .gz";
    case v1::DataConfig::FORMAT_IMAGE_FOLDER:
      return "; it wants train/<class>/*.png or *.jpg, and test/<class>/ for evaluations";
    case v1::DataConfig::FORMAT_CIFAR10:
      return "; it wants data_batch_1.bin to data_batch_5.bin";
    case v1::DataConfig::FORMAT_CIFAR100:
      return "; it wants train.bin";
    case v1::DataConfig::FORMAT_CSV:
      return "; it wants train.csv";
    case v1::DataConfig::FORMAT_NPY:
      return "; it wants x_train.npy and y_train.npy";
    case v1::DataConfig::FORMAT_TFRECORD:
      return "; it wants train*.tfrecord";
    case v1::DataConfig::FORMAT_CRITEO:
      return "; it wants train.tsv";
    default:
      return "";
  }
}

// Returns the names of the arrays of a test split: of ids, and of the numbers that the training
// split has.
absl::StatusOr<Names> TestArrays(const v1::DataConfig& config) {
  ASSIGN_OR_RETURN(const bool has_numbers, HasNpyInputs(config.directory(), "train"));
  Names names;
  if (config.ids_size() == 0 || has_numbers) names.push_back("x_test.npy");
  names.push_back("y_test.npy");
  for (const v1::IdsOptions& ids : config.ids()) {
    names.push_back(absl::StrCat(ids.column(), "_test.npy"));
  }
  return names;
}

// Returns the names of the test split's files or folder.
absl::StatusOr<Names> TestNames(v1::DataConfig::Format format, const v1::DataConfig& config) {
  switch (format) {
    case v1::DataConfig::FORMAT_IDX:
      return Names{"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
    case v1::DataConfig::FORMAT_IMAGE_FOLDER:
      return Names{"test"};
    case v1::DataConfig::FORMAT_CIFAR10:
      return Names{"test_batch.bin"};
    case v1::DataConfig::FORMAT_CIFAR100:
      return Names{"test.bin"};
    case v1::DataConfig::FORMAT_CSV:
      return Names{"test.csv"};
    case v1::DataConfig::FORMAT_NPY:
      return TestArrays(config);
    case v1::DataConfig::FORMAT_TFRECORD:
      return Names{"test*.tfrecord*"};
    case v1::DataConfig::FORMAT_CRITEO:
      return Names{"test.tsv"};
    default:
      return Names();
  }
}

}  // namespace

absl::Status FindTestSplit(v1::DataConfig::Format format, const v1::DataConfig& config) {
  const std::string& directory = config.directory();
  ASSIGN_OR_RETURN(const Names wanted, TestNames(format, config));
  if (wanted.empty()) return absl::OkStatus();
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const absl::StatusOr<Names> names = files->List(directory);
  if (!names.ok()) return Unreadable(*files, directory, names.status());
  const auto is_there = [&](const std::string& test) {
    return std::any_of(names->begin(), names->end(), [&](const std::string& name) {
      if (format == v1::DataConfig::FORMAT_TFRECORD) return IsTfRecord(name, "test");
      if (format == v1::DataConfig::FORMAT_CRITEO || format == v1::DataConfig::FORMAT_CSV) {
        return IsText(name, test);
      }
      return absl::StripSuffix(name, ".gz") == test;
    });
  };
  Names found, missing;
  for (const std::string& name : wanted) (is_there(name) ? found : missing).push_back(name);
  if (missing.empty()) return absl::OkStatus();
  if (!found.empty()) {
    return absl::FailedPreconditionError(
        absl::StrCat("data.directory: ", directory, " has ", found[0], " without ", missing[0],
                     ", so its test split is incomplete; add that, or remove ", found[0],
                     " to train without a test split"));
  }
  return absl::NotFoundError(
      absl::StrCat("data.directory: ", directory, " has no test split, which would be ",
                   absl::StrJoin(wanted, " and "),
                   "; training and `shoal predict --input=FILE` need none, for the rest add it"));
}

absl::Status CheckDataFields(v1::DataConfig::Format format, const v1::DataConfig& config) {
  for (const FieldOfFormats& field : FieldsOfFormats(config)) {
    const auto& formats = field.formats;
    if (!field.is_given || std::find(formats.begin(), formats.end(), format) != formats.end()) {
      continue;
    }
    const std::string list = absl::StrJoin(
        formats, " and ",
        [](std::string* out, v1::DataConfig::Format one) { *out += FormatName(one); });
    return absl::InvalidArgumentError(absl::StrCat("data.", field.path, ": is for the format ",
                                                   list, " only, and the data are ",
                                                   FormatName(format), "; drop it"));
  }
  const double empty_number = config.csv().empty_number();
  if (!(std::abs(empty_number) <= std::numeric_limits<float>::max())) {
    return absl::InvalidArgumentError(
        absl::StrCat("data.csv.empty_number: is ", empty_number,
                     ", which is not a finite number of 32 bits; give one, such as 0"));
  }
  RETURN_IF_ERROR(CheckIdOptions(format, config));
  if (config.directory().empty() || NeedsNoFiles(config)) return absl::OkStatus();
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const absl::Status found = files->GetInfo(config.directory()).status();
  return found.ok() ? found : Unreadable(*files, config.directory(), found);
}

absl::Status CheckHoldsFormat(v1::DataConfig::Format format, const v1::DataConfig& config) {
  const std::string& directory = config.directory();
  if (directory.empty()) return absl::OkStatus();
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const absl::StatusOr<Names> names = files->List(directory);
  if (!names.ok()) return Unreadable(*files, directory, names.status());
  ASSIGN_OR_RETURN(const std::vector<FoundFormat> found, FormatsIn(*files, directory, *names));
  const auto is_it = [format](const FoundFormat& one) { return one.format == format; };
  // A test split alone can be evaluated.
  if (std::any_of(found.begin(), found.end(), is_it) || FindTestSplit(format, config).ok()) {
    return absl::OkStatus();
  }
  const std::string wanted = FormatName(format);
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "data.directory: ", directory, " holds no ", wanted, " data, which data.format asks for",
        WantedFiles(format), HintFor(*files, directory, *names)));
  }
  const std::string list =
      absl::StrJoin(found, " and ", [](std::string* out, const FoundFormat& one) {
        absl::StrAppend(out, FormatName(one.format), " (", one.file, ")");
      });
  return absl::FailedPreconditionError(absl::StrCat(
      "data.format: is ", wanted, ", but ", directory, " holds ", list, "; set --data_format=",
      FormatName(found[0].format), ", or name the ", wanted, " data with --data_dir=DIR"));
}

absl::StatusOr<v1::DataConfig::Format> DetectDataFormat(const std::string& directory) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  const absl::StatusOr<Names> names = files->List(directory);
  if (!names.ok()) return Unreadable(*files, directory, names.status());
  ASSIGN_OR_RETURN(const std::vector<FoundFormat> found, FormatsIn(*files, directory, *names));
  if (found.size() == 1) return found[0].format;
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat(
        "data.directory: ", directory,
        " holds no data set: neither train/<class>/ with images nor train-images-idx3-ubyte.gz, "
        "data_batch_1.bin, train.bin, train.csv, x_train.npy, train*.tfrecord or train.tsv",
        HintFor(*files, directory, *names)));
  }
  const std::string list = absl::StrJoin(found, ", ", [](std::string* out, const FoundFormat& one) {
    absl::StrAppend(out, FormatName(one.format));
  });
  return absl::FailedPreconditionError(
      absl::StrCat("data.format: ", directory, " holds data of several formats (", list,
                   "); name one, as in --set data.format=", FormatName(found[0].format)));
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

absl::StatusOr<std::string> TextPath(const std::string& directory, const std::string& name) {
  const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
  std::vector<std::string> found;
  for (const char* compression : kCompressions) {
    const std::string path = JoinPath(directory, absl::StrCat(name, compression));
    ASSIGN_OR_RETURN(const std::optional<FileInfo> file, FindFile(*files, path));
    if (file.has_value()) found.push_back(path);
  }
  if (found.size() == 1) return found[0];
  if (found.empty()) {
    return absl::NotFoundError(absl::StrCat("data.directory: ", directory, " holds no ", name, ", ",
                                            name, ".gz or ", name, ".zst; name the file so"));
  }
  return absl::FailedPreconditionError(absl::StrCat("data.directory: ", found[0], " and ", found[1],
                                                    " are both there; remove one of them"));
}

bool IsTextName(absl::string_view path, absl::string_view ending) {
  for (const char* compression : kCompressions) {
    if (absl::EndsWith(path, absl::StrCat(ending, compression))) return true;
  }
  return false;
}

absl::StatusOr<bool> HasNpyInputs(const std::string& directory, const std::string& split) {
  const std::string path = JoinPath(directory, absl::StrCat("x_", split, ".npy"));
  ASSIGN_OR_RETURN(const std::optional<FileInfo> file, FindFile(*NewPosixFileSystem(), path));
  return file.has_value();
}

}  // namespace shoal
