#include "ml/data/dataset_factory.h"

#include <sys/stat.h>

#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"

#include "ml/data/idx_dataset.h"
#include "ml/data/synthetic_dataset.h"
#include "proto/v1/data_config.pb.h"

namespace shoal {
namespace {

constexpr int64_t kTrainExamples = 10000;
constexpr int64_t kTestExamples = 2000;
constexpr int64_t kFeatures = 600;
constexpr int64_t kClasses = 10;

int64_t OrDefault(uint64_t value, int64_t default_value) {
  return value == 0 ? default_value : static_cast<int64_t>(value);
}

// The gzipped file if it is there, else the plain one.
std::string IdxPath(const std::string& directory, const std::string& name) {
  const std::string gzipped = absl::StrCat(directory, "/", name, ".gz");
  const std::string plain = absl::StrCat(directory, "/", name);
  struct stat file = {};
  return stat(gzipped.c_str(), &file) != 0 && stat(plain.c_str(), &file) == 0 ? plain : gzipped;
}

absl::StatusOr<std::unique_ptr<Dataset>> MakeIdx(const v1::DataConfig& config, DataSplit split) {
  const std::string directory =
      config.directory().empty() ? kDefaultDataDirectory : config.directory();
  const bool is_train = split == DataSplit::kTrain;
  const std::string prefix = is_train ? "train" : "t10k";
  IdxDatasetOptions options;
  options.images_path = IdxPath(directory, prefix + "-images-idx3-ubyte");
  options.labels_path = IdxPath(directory, prefix + "-labels-idx1-ubyte");
  options.num_classes = static_cast<int>(OrDefault(config.classes(), kClasses));
  options.max_examples =
      static_cast<int64_t>(is_train ? config.train_examples() : config.test_examples());
  return LoadIdxDataset(options);
}

SyntheticOptions SyntheticOptionsFrom(const v1::DataConfig& config, DataSplit split,
                                      uint64_t seed) {
  SyntheticOptions options;
  const bool is_train = split == DataSplit::kTrain;
  options.examples = is_train ? OrDefault(config.train_examples(), kTrainExamples)
                              : OrDefault(config.test_examples(), kTestExamples);
  options.features = OrDefault(config.features(), kFeatures);
  options.classes = OrDefault(config.classes(), kClasses);
  options.target_columns = config.target_columns();
  options.seed = seed;
  options.first_example = is_train ? 0 : uint64_t{1} << 40;
  return options;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> MakeDataset(const v1::DataConfig& config, DataSplit split,
                                                     uint64_t seed) {
  switch (config.format()) {
    case v1::DataConfig::FORMAT_UNSPECIFIED:
    case v1::DataConfig::FORMAT_IDX:
      return MakeIdx(config, split);
    case v1::DataConfig::FORMAT_SYNTHETIC_REGRESSION:
      return MakeSyntheticRegression(SyntheticOptionsFrom(config, split, seed));
    case v1::DataConfig::FORMAT_SYNTHETIC_CLASSIFICATION:
      return MakeSyntheticClassification(SyntheticOptionsFrom(config, split, seed));
    default:
      return absl::InvalidArgumentError(
          absl::StrCat("data.format is ", config.format(), ": this version does not know it"));
  }
}

}  // namespace shoal
