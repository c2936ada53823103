#include "ml/data/dataset_factory.h"

#include <sys/stat.h>

#include <algorithm>
#include <string>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

#include "base/file_system.h"
#include "base/status_macros.h"
#include "ml/data/augmented_dataset.h"
#include "ml/data/cifar_dataset.h"
#include "ml/data/clicks_dataset.h"
#include "ml/data/criteo_dataset.h"
#include "ml/data/csv_dataset.h"
#include "ml/data/data_defaults.h"
#include "ml/data/data_format.h"
#include "ml/data/data_rules.h"
#include "ml/data/dataset_options.h"
#include "ml/data/ids/id_column.h"
#include "ml/data/idx_dataset.h"
#include "ml/data/image_folder.h"
#include "ml/data/named_classes.h"
#include "ml/data/npy_dataset.h"
#include "ml/data/synthetic_dataset.h"
#include "ml/data/tf_record_dataset.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {
namespace {

const char* NameOf(DataSplit split) { return split == DataSplit::kTrain ? "train" : "test"; }

int64_t MostExamples(const v1::DataConfig& config, DataSplit split) {
  return static_cast<int64_t>(split == DataSplit::kTrain ? config.train_examples()
                                                         : config.test_examples());
}

// Returns the path of the gzipped file if it exists, else that of the plain one.
std::string IdxPath(const std::string& directory, const std::string& name) {
  const std::string gzipped = absl::StrCat(directory, "/", name, ".gz");
  const std::string plain = absl::StrCat(directory, "/", name);
  struct stat file = {};
  return stat(gzipped.c_str(), &file) != 0 && stat(plain.c_str(), &file) == 0 ? plain : gzipped;
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeIdx(const v1::DataConfig& config, DataSplit split,
                                                 const DataRules& rules) {
  const bool is_train = split == DataSplit::kTrain;
  const std::string prefix = is_train ? "train" : "t10k";
  IdxDatasetOptions options;
  options.images_path = IdxPath(config.directory(), prefix + "-images-idx3-ubyte");
  options.labels_path = IdxPath(config.directory(), prefix + "-labels-idx1-ubyte");
  options.num_classes = static_cast<int>(ClassesOf(config, rules));
  options.rules = rules;
  options.image = ImageTargetFrom(config.image());
  options.max_examples = MostExamples(config, split);
  return LoadIdxDataset(options);
}

SyntheticOptions SyntheticOptionsFrom(const v1::DataConfig& config, DataSplit split,
                                      uint64_t seed) {
  SyntheticOptions options;
  const bool is_train = split == DataSplit::kTrain;
  options.examples =
      static_cast<int64_t>(is_train ? config.train_examples() : config.test_examples());
  options.features = static_cast<int64_t>(config.features());
  options.classes = ClassesOf(config, DataRules());
  options.target_columns = config.target_columns();
  options.seed = seed;
  options.first_example = is_train ? 0 : uint64_t{1} << 40;
  return options;
}

ClicksOptions ClicksOptionsFrom(const v1::DataConfig& config, DataSplit split, uint64_t seed) {
  ClicksOptions options;
  const bool is_train = split == DataSplit::kTrain;
  options.examples = MostExamples(config, split);
  options.first_example = is_train ? 0 : uint64_t{1} << 40;
  options.days = config.clicks().days();
  options.last_day = options.days - 1;
  options.first_day = is_train ? 0 : options.last_day;
  options.scale = config.clicks().scale();
  options.multi_hot = config.clicks().multi_hot();
  options.seed = seed;
  return options;
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeCriteo(const v1::DataConfig& config, DataSplit split) {
  CriteoOptions options;
  ASSIGN_OR_RETURN(options.path, TextPath(config.directory(), absl::StrCat(NameOf(split), ".tsv")));
  options.max_examples = MostExamples(config, split);
  return LoadCriteo(options);
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeImageFolder(const v1::DataConfig& config,
                                                         DataSplit split) {
  const bool is_train = split == DataSplit::kTrain;
  const std::string train = JoinPath(config.directory(), "train");
  ImageFolderOptions options;
  options.class_directory = train;
  options.directory = is_train ? train : JoinPath(config.directory(), "test");
  options.image = ImageTargetFrom(config.image());
  options.max_examples = MostExamples(config, split);
  return OpenImageFolder(options);
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeCifar(const v1::DataConfig& config, CifarKind kind,
                                                   DataSplit split) {
  CifarDatasetOptions options;
  options.kind = kind;
  options.class_names_path =
      JoinPath(config.directory(),
               kind == CifarKind::kCifar10 ? "batches.meta.txt" : "fine_label_names.txt");
  const bool is_train = split == DataSplit::kTrain;
  if (kind == CifarKind::kCifar100) {
    options.paths = {JoinPath(config.directory(), is_train ? "train.bin" : "test.bin")};
  } else if (is_train) {
    for (int part = 1; part <= 5; ++part) {
      options.paths.push_back(
          JoinPath(config.directory(), absl::StrCat("data_batch_", part, ".bin")));
    }
  } else {
    options.paths = {JoinPath(config.directory(), "test_batch.bin")};
  }
  options.image = ImageTargetFrom(config.image());
  options.max_examples = MostExamples(config, split);
  return LoadCifarDataset(options);
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeCsv(const v1::DataConfig& config, DataSplit split,
                                                 const DataRules& rules) {
  ASSIGN_OR_RETURN(const CsvDatasetOptions options, CsvSplit(config, NameOf(split), rules));
  return LoadCsvDataset(options);
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeNpy(const v1::DataConfig& config, DataSplit split,
                                                 const DataRules& rules) {
  ASSIGN_OR_RETURN(const NpyDatasetOptions options, NpySplit(config, NameOf(split), rules));
  return LoadNpyDataset(options);
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeTfRecord(const v1::DataConfig& config, DataSplit split,
                                                      const DataRules& rules) {
  ASSIGN_OR_RETURN(const TfRecordDatasetOptions options,
                   TfRecordSplit(config, NameOf(split), rules));
  return OpenTfRecordDataset(options);
}

absl::StatusOr<std::unique_ptr<Dataset>> ReadDataset(v1::DataConfig::Format format,
                                                     const v1::DataConfig& config, DataSplit split,
                                                     uint64_t seed, const DataRules& rules) {
  switch (format) {
    case v1::DataConfig::FORMAT_IDX:
      return MakeIdx(config, split, rules);
    case v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION:
      return MakeSyntheticRegression(SyntheticOptionsFrom(config, split, seed));
    case v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION:
      return MakeSyntheticClassification(SyntheticOptionsFrom(config, split, seed));
    case v1::DataConfig::FORMAT_CLICKS_SYNTHETIC:
      return MakeClicks(ClicksOptionsFrom(config, split, seed));
    case v1::DataConfig::FORMAT_CRITEO:
      return MakeCriteo(config, split);
    case v1::DataConfig::FORMAT_IMAGE_FOLDER:
      return MakeImageFolder(config, split);
    case v1::DataConfig::FORMAT_CIFAR10:
      return MakeCifar(config, CifarKind::kCifar10, split);
    case v1::DataConfig::FORMAT_CIFAR100:
      return MakeCifar(config, CifarKind::kCifar100, split);
    case v1::DataConfig::FORMAT_CSV:
      return MakeCsv(config, split, rules);
    case v1::DataConfig::FORMAT_NPY:
      return MakeNpy(config, split, rules);
    case v1::DataConfig::FORMAT_TFRECORD:
      return MakeTfRecord(config, split, rules);
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("data.format is ", format, ": this version does not know it"));
  }
}

AugmentedDatasetOptions AugmentationFrom(const v1::DataConfig& config, DataSplit split,
                                         uint64_t seed) {
  AugmentedDatasetOptions options;
  options.seed = seed;
  options.is_training = split == DataSplit::kTrain;
  options.flip = config.augment().flip();
  options.pad = config.augment().pad();
  options.crop = config.image().crop();
  options.mean.assign(config.image().mean().begin(), config.image().mean().end());
  options.stddev.assign(config.image().stddev().begin(), config.image().stddev().end());
  return options;
}

absl::Status CheckClasses(const v1::DataConfig& config, const Dataset& dataset) {
  if (config.classes() == 0 || dataset.num_classes() <= config.classes()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      "data.classes: is ", config.classes(), ", but ", config.directory(), " has ",
      dataset.num_classes(), " classes; leave data.classes unset, or remove the other classes"));
}

// Refuses data of more classes than the loss has.
absl::Status CheckLossFits(v1::DataConfig::Format format, const v1::DataConfig& config,
                           const Dataset& dataset, const DataRules& rules) {
  const bool is_made = format == v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION;
  const int64_t classes = is_made ? static_cast<int64_t>(config.classes()) : dataset.num_classes();
  if (LimitClasses(classes, rules) == classes) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("model.loss: ", rules.binary_loss, " is for the labels 0 and 1, but ",
                   is_made ? "the synthetic data" : config.directory(), " has ", classes,
                   " classes; use sparse_softmax_cross_entropy, or ",
                   is_made ? "set data.classes to 2" : "remove the other classes"));
}

v1::DataConfig Resolved(v1::DataConfig config) {
  ResolveDataDefaults(&config);
  return config;
}

// Returns the names in classes.txt beside data of a format that has no names of its own.
absl::StatusOr<std::vector<std::string>> NamesBeside(v1::DataConfig::Format format,
                                                     const v1::DataConfig& config) {
  const bool has_none =
      format == v1::DataConfig::FORMAT_IDX || format == v1::DataConfig::FORMAT_NPY ||
      format == v1::DataConfig::FORMAT_CSV || format == v1::DataConfig::FORMAT_TFRECORD;
  if (!has_none) return std::vector<std::string>();
  ASSIGN_OR_RETURN(std::vector<std::string> names, ReadNamedClasses(config.directory()));
  if (names.empty() || config.classes() == 0 || names.size() == config.classes()) return names;
  return absl::InvalidArgumentError(absl::StrCat("data.classes: is ", config.classes(), ", but ",
                                                 config.directory(), "/classes.txt has ",
                                                 names.size(), " names; leave data.classes unset"));
}

// Returns whether labels are classes whose names, if there are any, are not in the data.
bool LacksNames(const Dataset& dataset) {
  const std::vector<FieldSpec>& fields = dataset.fields();
  return dataset.class_names().empty() &&
         std::any_of(fields.begin(), fields.end(),
                     [](const FieldSpec& field) { return field.name == kLabelField; });
}

// Reads a table like synthetic clicks: 13 numbers, then 26 columns of ids, of which some are lists.
absl::StatusOr<std::unique_ptr<Dataset>> LoadClicksTable(const std::string& path) {
  CsvDatasetOptions options;
  options.path = path;
  options.has_label = false;
  options.has_header = false;
  options.delimiter = '\t';
  for (int column = 1; column <= 26; ++column) {
    IdColumn ids;
    ids.column = absl::StrCat(12 + column);
    ids.name = absl::StrCat("c", column);
    ids.separator = ",";
    options.ids.push_back(std::move(ids));
  }
  return LoadCsvDataset(options);
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeClicksInputs(const v1::DataConfig& config,
                                                          const std::string& path) {
  v1::DataConfig::Format format = config.format();
  if (format == v1::DataConfig::FORMAT_UNSPECIFIED && !config.directory().empty()) {
    format = DetectDataFormat(config.directory()).value_or(format);
  }
  if (format == v1::DataConfig::FORMAT_CLICKS_SYNTHETIC) {
    if (absl::EndsWith(path, ".tsv")) return LoadClicksTable(path);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is compressed; a run on clicks_synthetic takes a plain .tsv"));
  }
  if (format != v1::DataConfig::FORMAT_CRITEO) {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": a .tsv is for runs on criteo or clicks_synthetic, and this run's data are of "
        "another format; give a file of the run's format"));
  }
  CriteoOptions options;
  options.path = path;
  options.has_label = false;
  return LoadCriteo(options);
}

bool IsDirectory(const std::string& path) {
  struct stat file = {};
  return stat(path.c_str(), &file) == 0 && S_ISDIR(file.st_mode);
}

absl::StatusOr<v1::DataConfig::Format> FormatOf(const v1::DataConfig& config) {
  if (config.format() == v1::DataConfig::FORMAT_UNSPECIFIED) {
    return DetectDataFormat(config.directory());
  }
  if (!NeedsNoFiles(config)) {
    RETURN_IF_ERROR(CheckHoldsFormat(config.format(), config));
  }
  return config.format();
}

}  // namespace

absl::StatusOr<bool> HasTestSplit(const v1::DataConfig& given) {
  const v1::DataConfig config = Resolved(given);
  ASSIGN_OR_RETURN(const v1::DataConfig::Format format, FormatOf(config));
  RETURN_IF_ERROR(CheckDataFields(format, config));
  const absl::Status found = FindTestSplit(format, config);
  if (found.ok()) return true;
  if (!absl::IsNotFound(found) || config.test_examples() > 0) return found;
  return false;
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const v1::DataConfig& given, DataSplit split,
                                                     uint64_t seed, const DataRules& rules) {
  v1::DataConfig config = Resolved(given);
  ASSIGN_OR_RETURN(const v1::DataConfig::Format format, FormatOf(config));
  RETURN_IF_ERROR(CheckDataFields(format, config));
  ASSIGN_OR_RETURN(std::vector<std::string> names, NamesBeside(format, config));
  if (!names.empty()) config.set_classes(static_cast<uint32_t>(names.size()));
  if (split == DataSplit::kTest) RETURN_IF_ERROR(FindTestSplit(format, config));
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset,
                   ReadDataset(format, config, split, seed, rules));
  RETURN_IF_ERROR(CheckClasses(given, *dataset));
  RETURN_IF_ERROR(CheckLossFits(format, config, *dataset, rules));
  if (!names.empty() && LacksNames(*dataset)) {
    dataset = WithClassNames(std::move(dataset), std::move(names));
  }
  const AugmentedDatasetOptions augmentation = AugmentationFrom(config, split, seed);
  if (!ChangesImages(augmentation)) return dataset;
  return AugmentImages(std::move(dataset), augmentation);
}

bool IsClicksName(const std::string& path) { return IsTextName(path, ".tsv"); }

bool IsTableName(const std::string& path) { return IsTextName(path, ".csv"); }

bool IsRecordsName(const std::string& path) {
  const size_t slash = path.rfind('/');
  return absl::StrContains(path.substr(slash == std::string::npos ? 0 : slash), ".tfrecord");
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeInputs(const v1::DataConfig& config,
                                                    const std::string& path,
                                                    const DataRules& rules) {
  std::unique_ptr<Dataset> dataset;
  if (absl::EndsWith(path, ".npy")) {
    ASSIGN_OR_RETURN(const NpyDatasetOptions options, NpyInputs(config, path, rules));
    ASSIGN_OR_RETURN(dataset, LoadNpyDataset(options));
  } else if (IsTableName(path)) {
    ASSIGN_OR_RETURN(dataset, LoadCsvDataset(CsvInputs(config, path, rules)));
  } else if (IsRecordsName(path)) {
    ASSIGN_OR_RETURN(dataset, OpenTfRecordDataset(TfRecordInputs(config, path, rules)));
  } else if (IsClicksName(path)) {
    ASSIGN_OR_RETURN(dataset, MakeClicksInputs(config, path));
  } else if (IsImageName(path) || IsDirectory(path)) {
    ASSIGN_OR_RETURN(dataset, OpenImageFiles(path, ImageTargetFrom(config.image())));
  } else {
    return absl::InvalidArgumentError(absl::StrCat(
        path,
        ": its name must end in .npy, .csv, .tsv, .tfrecord, .png or .jpg, which says what it "
        "holds"));
  }
  const AugmentedDatasetOptions augmentation = AugmentationFrom(config, DataSplit::kTest, 0);
  if (!ChangesImages(augmentation)) return dataset;
  return AugmentImages(std::move(dataset), augmentation);
}

int64_t NumClasses(const v1::DataConfig& config, const Dataset& dataset) {
  if (config.classes() > 0) return config.classes();
  return dataset.num_classes() > 0 ? dataset.num_classes() : kDefaultClasses;
}

int DecodeThreads(const v1::DataConfig& config, const Dataset& dataset) {
  if (config.decode_threads() > 0) return static_cast<int>(config.decode_threads());
  if (!dataset.is_costly()) return 1;
  return static_cast<int>(std::clamp(std::thread::hardware_concurrency(), 1u, 8u));
}

}  // namespace shoal
