#include "ml/data/dataset_options.h"

#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/data_format.h"
#include "ml/data/ids/id_options.h"
#include "ml/data/npy_ids.h"

namespace shoal {
namespace {

int64_t MostExamples(const v1::DataConfig& config, const std::string& split) {
  return static_cast<int64_t>(split == "train" ? config.train_examples() : config.test_examples());
}

TfRecordDatasetOptions TfRecordOptions(const v1::DataConfig& config, const DataRules& rules) {
  TfRecordDatasetOptions options;
  if (!config.tfrecord().input().empty()) options.input = config.tfrecord().input();
  if (!config.tfrecord().label().empty()) options.label = config.tfrecord().label();
  options.image = ImageTargetFrom(config.image());
  options.num_classes = ClassesOf(config, rules);
  options.rules = rules;
  options.ids = IdColumnsOf(config);
  options.numbers.assign(config.numbers().begin(), config.numbers().end());
  return options;
}

// Returns the directory and the split of the array at `path`, one of a run with ids.
absl::Status FindSplit(const v1::DataConfig& config, const std::string& path,
                       NpyDatasetOptions* options) {
  const size_t slash = path.rfind('/');
  options->ids_directory = slash == std::string::npos ? "." : path.substr(0, slash);
  absl::string_view file =
      absl::string_view(path).substr(slash == std::string::npos ? 0 : slash + 1);
  file = absl::StripSuffix(file, ".npy");
  std::vector<std::string> names = {"x"};
  for (const v1::IdsOptions& ids : config.ids()) names.push_back(ids.column());
  for (const std::string& name : names) {
    absl::string_view split = file;
    if (!absl::ConsumePrefix(&split, name + "_") || split.empty()) continue;
    options->split = std::string(split);
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path,
      ": the run's examples have ids in several arrays (data.ids); name one of them, whose "
      "name must be ",
      absl::StrJoin(names, "_NAME.npy, "), "_NAME.npy, beside the others"));
}

}  // namespace

int64_t ClassesOf(const v1::DataConfig& config, const DataRules& rules) {
  return LimitClasses(
      config.classes() == 0 ? kDefaultClasses : static_cast<int64_t>(config.classes()), rules);
}

ImageTargetOptions ImageTargetFrom(const v1::ImageOptions& image) {
  return {static_cast<int64_t>(image.height()), static_cast<int64_t>(image.width()),
          static_cast<int64_t>(image.channels())};
}

CsvDatasetOptions CsvInputs(const v1::DataConfig& config, const std::string& path,
                            const DataRules& rules) {
  CsvDatasetOptions options;
  options.path = path;
  options.label = config.csv().label();
  options.rules = rules;
  options.has_label = false;
  options.has_header = !config.csv().no_header();
  const std::string& delimiter = config.csv().delimiter();
  if (!delimiter.empty()) options.delimiter = delimiter[0];
  if (config.csv().has_empty_number()) {
    options.empty_number = static_cast<float>(config.csv().empty_number());
  }
  options.ids = IdColumnsOf(config);
  options.numbers.assign(config.numbers().begin(), config.numbers().end());
  return options;
}

absl::StatusOr<CsvDatasetOptions> CsvSplit(const v1::DataConfig& config, const std::string& split,
                                           const DataRules& rules) {
  ASSIGN_OR_RETURN(const std::string path, TextPath(config.directory(), split + ".csv"));
  CsvDatasetOptions options = CsvInputs(config, path, rules);
  options.has_label = true;
  // Labels must be numbers if there is no training split; the reader says so.
  const absl::StatusOr<std::string> train = TextPath(config.directory(), "train.csv");
  if (absl::IsUnavailable(train.status())) return train.status();
  options.classes_path = train.value_or(JoinPath(config.directory(), "train.csv"));
  options.is_regression = config.csv().regression();
  options.num_classes = ClassesOf(config, rules);
  options.max_examples = MostExamples(config, split);
  return options;
}

absl::StatusOr<NpyDatasetOptions> NpySplit(const v1::DataConfig& config, const std::string& split,
                                           const DataRules& rules) {
  NpyDatasetOptions options;
  const std::string& directory = config.directory();
  // There may be ids alone; a test split must have the numbers of the training split.
  ASSIGN_OR_RETURN(const bool has_numbers, HasNpyInputs(directory, split));
  ASSIGN_OR_RETURN(const bool train_has_numbers, HasNpyInputs(directory, "train"));
  if (config.ids_size() == 0 || has_numbers || train_has_numbers) {
    options.inputs_path = NpyPath(directory, "x", split);
  }
  options.labels_path = NpyPath(directory, "y", split);
  options.image = ImageTargetFrom(config.image());
  options.num_classes = ClassesOf(config, rules);
  options.rules = rules;
  options.max_examples = MostExamples(config, split);
  options.ids = IdColumnsOf(config);
  options.ids_directory = directory;
  options.split = split;
  return options;
}

absl::StatusOr<NpyDatasetOptions> NpyInputs(const v1::DataConfig& config, const std::string& path,
                                            const DataRules& rules) {
  NpyDatasetOptions options;
  options.inputs_path = path;
  options.image = ImageTargetFrom(config.image());
  options.ids = IdColumnsOf(config);
  options.rules = rules;
  if (options.ids.empty()) return options;
  RETURN_IF_ERROR(FindSplit(config, path, &options));
  ASSIGN_OR_RETURN(const bool has_numbers, HasNpyInputs(options.ids_directory, options.split));
  options.inputs_path = has_numbers ? NpyPath(options.ids_directory, "x", options.split) : "";
  return options;
}

absl::StatusOr<TfRecordDatasetOptions> TfRecordSplit(const v1::DataConfig& config,
                                                     const std::string& split,
                                                     const DataRules& rules) {
  TfRecordDatasetOptions options = TfRecordOptions(config, rules);
  ASSIGN_OR_RETURN(options.paths, TfRecordPaths(config.directory(), split));
  options.max_examples = MostExamples(config, split);
  return options;
}

TfRecordDatasetOptions TfRecordInputs(const v1::DataConfig& config, const std::string& path,
                                      const DataRules& rules) {
  TfRecordDatasetOptions options = TfRecordOptions(config, rules);
  options.paths = {path};
  options.has_label = false;
  return options;
}

}  // namespace shoal
