#include "worker/prediction/predict_input.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"

#include "base/file_system.h"
#include "base/find_file.h"
#include "base/status_macros.h"
#include "ml/data/data_format.h"
#include "ml/data/dataset_factory.h"
#include "ml/data/image_folder.h"
#include "ml/data/records/npy_file.h"
#include "ml/tensor/dtype.h"
#include "runtime/config/rule.h"
#include "worker/prediction/input_columns.h"

namespace shoal {
namespace {

constexpr int64_t kRowsPerRead = 256;
// A bound above the values of an image divided by 255, with room for other ranges around 0 to 1.
constexpr double kLargestScaled = 1.5;

// The arrays are read as they are; a model for images refuses others itself.
v1::DataConfig WithoutPreparation(v1::DataConfig config) {
  config.mutable_image()->clear_crop();
  config.mutable_image()->clear_mean();
  config.mutable_image()->clear_stddev();
  return config;
}

absl::Status UnreadableInput(const std::string& file, const absl::Status& status) {
  absl::string_view message = status.message();
  if (absl::StrContains(message, "data.csv.no_header")) {
    return InvalidField("--input",
                        absl::StrCat(file,
                                     ": its first line is all numbers; give "
                                     "--set=data.csv.no_header=true, or add a line with the "
                                     "columns' names"));
  }
  // An array of ids lies beside the one that --input names.
  const size_t array = message.find("; check data.directory or data.ids[");
  if (array != absl::string_view::npos) {
    return absl::Status(status.code(), absl::StrCat("--input: ", message.substr(0, array),
                                                    "; put it beside the other arrays"));
  }
  const bool is_missing = absl::ConsumeSuffix(&message, "; check data.directory") ||
                          absl::EndsWith(message, "No such file or directory");
  const bool is_other_kind = status.code() == absl::StatusCode::kInvalidArgument;
  return absl::Status(
      is_other_kind ? absl::StatusCode::kDataLoss : status.code(),
      absl::StrCat("--input: ", message, is_missing ? "; name a file that is there" : ""));
}

bool HasRaggedInput(const Dataset& data) {
  const std::vector<FieldSpec>& fields = data.fields();
  return std::any_of(fields.begin(), fields.end(),
                     [](const FieldSpec& field) { return field.is_ragged() && !IsTarget(field); });
}

std::vector<int64_t> WithoutOnes(std::vector<int64_t> dims) {
  dims.erase(std::remove(dims.begin(), dims.end(), 1), dims.end());
  return dims;
}

int64_t Product(const std::vector<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

bool AreImages(const std::vector<int64_t>& dims) {
  return dims.size() == 3 && (dims[0] == 1 || dims[0] == 3);
}

std::string Reshaping(const std::string& file, bool is_resized, int64_t size,
                      const std::vector<int64_t>& has, const std::vector<int64_t>& wanted) {
  const std::string shape = absl::StrJoin(wanted, ",");
  if (IsTableName(file)) return "give a .npy array of that shape";
  std::vector<int64_t> all = {size};
  all.insert(all.end(), has.begin(), has.end());
  const bool is_array = absl::EndsWith(file, ".npy") && !is_resized;
  const bool is_flat = has.size() == 1 && has[0] == Product(wanted);
  if (is_array && (is_flat || WithoutOnes(has) == WithoutOnes(wanted) ||
                   WithoutOnes(all) == WithoutOnes(wanted))) {
    return absl::StrCat("save x.reshape(-1,", shape, ")");
  }
  if (is_array && has.size() == 3 && std::vector<int64_t>{has[2], has[0], has[1]} == wanted) {
    return "save numpy.ascontiguousarray(x.transpose(0,3,1,2))";
  }
  if (AreImages(has) && AreImages(wanted) && has[0] != wanted[0]) {
    return wanted[0] == 1 ? "give grey images, [n,height,width]"
                          : "give images with 3 channels, [n,height,width,3]";
  }
  return "give examples of that shape";
}

// Returns the shape of a batch of a field, such as "[n,2]" or "int64 [n]".
std::string ShapeOf(const FieldSpec& field) {
  if (field.kind == FieldKind::kWeightedRagged) return "(lists of keys with weights)";
  if (field.is_ragged()) return "(lists of keys)";
  std::string text;
  if (field.example.dtype != DataType::kFloat32) {
    text = absl::StrCat(DataTypeName(field.example.dtype), " ");
  }
  absl::StrAppend(&text, "[n");
  for (const int64_t dim : field.example.shape.dims()) absl::StrAppend(&text, ",", dim);
  return text + "]";
}

// An unknown shape is an error.
absl::StatusOr<std::vector<int64_t>> ShapeOfRunExamples(const v1::DataConfig& config) {
  ASSIGN_OR_RETURN(const std::unique_ptr<Dataset> data,
                   OpenRunExamples(config, /*seed=*/0, /*size=*/1));
  const absl::Span<const int64_t> dims = data->fields()[0].example.shape.dims();
  return std::vector<int64_t>(dims.begin(), dims.end());
}

// The run's examples say which size and channels images of --input are brought to where the run
// file leaves it open, unless a crop stands between the two or the data is no longer there.
v1::DataConfig LikeRunExamples(v1::DataConfig config) {
  v1::ImageOptions* image = config.mutable_image();
  const absl::StatusOr<std::vector<int64_t>> shape = ShapeOfRunExamples(config);
  if (!shape.ok() || shape->size() != 3) return config;
  const int64_t channels = (*shape)[0];
  if (image->channels() == 0 && (channels == 1 || channels == 3)) {
    image->set_channels(static_cast<uint32_t>(channels));
  }
  if (image->height() == 0 && image->crop() == 0) {
    image->set_height(static_cast<uint32_t>((*shape)[1]));
    image->set_width(static_cast<uint32_t>((*shape)[2]));
  }
  return config;
}

// Returns whether the run divided the bytes of images by 255; false if that is no longer known.
bool WereByteImages(const v1::DataConfig& config) {
  v1::DataConfig::Format format = config.format();
  if (format == v1::DataConfig::FORMAT_UNSPECIFIED) {
    if (config.directory().empty()) return true;  // the default is idx
    format = DetectDataFormat(config.directory()).value_or(format);
  }
  switch (format) {
    case v1::DataConfig::FORMAT_IDX:
    case v1::DataConfig::FORMAT_IMAGE_FOLDER:
    case v1::DataConfig::FORMAT_CIFAR10:
    case v1::DataConfig::FORMAT_CIFAR100:
      return true;
    case v1::DataConfig::FORMAT_TFRECORD:
      return config.tfrecord().input().empty() || config.tfrecord().input() == "image/encoded";
    case v1::DataConfig::FORMAT_NPY: {
      absl::StatusOr<NpyArray> array = ReadNpyFile(JoinPath(config.directory(), "x_test.npy"));
      if (!array.ok()) array = ReadNpyFile(JoinPath(config.directory(), "x_train.npy"));
      return array.ok() && array->kind == 'u';
    }
    default:
      return false;
  }
}

// Returns the bound kLargestScaled after the normalisation in the run file.
double LargestPrepared(const v1::ImageOptions& image) {
  double largest = -HUGE_VAL;
  for (int c = 0; c < std::max({image.mean_size(), image.stddev_size(), 1}); ++c) {
    const double mean = image.mean_size() == 0 ? 0 : image.mean(std::min(c, image.mean_size() - 1));
    const double stddev =
        image.stddev_size() == 0 ? 1 : image.stddev(std::min(c, image.stddev_size() - 1));
    largest = std::max(largest, (kLargestScaled - mean) / stddev);
  }
  return largest;
}

// Returns whether the name is that of an image, or of a folder that is there.
absl::StatusOr<bool> IsImageInput(const std::string& file) {
  if (IsImageName(file)) return true;
  return IsDirectory(*NewPosixFileSystem(), file);
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenInput(const v1::DataConfig& config,
                                                   const std::string& file,
                                                   const DataRules& rules) {
  const bool is_table = absl::EndsWith(file, ".npy") || IsTableName(file) || IsClicksName(file) ||
                        IsRecordsName(file);
  ASSIGN_OR_RETURN(const bool is_image, IsImageInput(file));
  if (!is_table && !is_image) {
    return InvalidField("--input",
                        absl::StrCat(file,
                                     ": its name must end in .npy, .csv, .tsv, .tfrecord, .png or "
                                     ".jpg, which says what it holds, or it must be a folder of "
                                     "images"));
  }
  if (IsTableName(file)) RETURN_IF_ERROR(CheckInputColumns(config, file));
  const v1::DataConfig wanted = is_table ? config : LikeRunExamples(config);
  absl::StatusOr<std::unique_ptr<Dataset>> data = MakeInputs(wanted, file, rules);
  if (data.ok()) return data;
  const v1::DataConfig plain = WithoutPreparation(wanted);
  const absl::StatusOr<std::unique_ptr<Dataset>> unprepared = MakeInputs(plain, file, rules);
  if (!unprepared.ok()) return UnreadableInput(file, unprepared.status());
  return ExplainMisfit(plain, file, **unprepared, data.status());
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenRunExamples(v1::DataConfig config, uint64_t seed,
                                                         uint32_t size) {
  absl::StatusOr<bool> has_test = HasTestSplit(config);
  if (absl::IsInvalidArgument(has_test.status()) && config.has_csv()) {
    // The options are those of --input; the run's own data are of another format.
    config.clear_csv();
    has_test = HasTestSplit(config);
  }
  RETURN_IF_ERROR(has_test.status());
  const DataSplit split = *has_test ? DataSplit::kTest : DataSplit::kTrain;
  if (size != 0 && *has_test) config.set_test_examples(size);
  if (size != 0 && !*has_test) config.set_train_examples(size);
  return MakeDataset(config, split, seed);
}

absl::StatusOr<std::string> CheckInputValues(const v1::DataConfig& config, const std::string& file,
                                             const Dataset& data) {
  if (!data.example_name(0).empty()) return std::string();  // Decoded images have no other values.
  // Readers of ids have checked the numbers beside them.
  if (HasRaggedInput(data)) return std::string();
  float largest = 0;
  for (int64_t first = 0; first < data.size(); first += kRowsPerRead) {
    const int64_t count = std::min(kRowsPerRead, data.size() - first);
    ASSIGN_OR_RETURN(const std::vector<Tensor> rows, ReadInputRows(data, first, count));
    const absl::Span<const float> values = rows[0].span<float>();
    for (size_t i = 0; i < values.size(); ++i) {
      largest = std::max(largest, values[i]);
      if (std::isfinite(values[i])) continue;
      return absl::DataLossError(
          absl::StrCat("--input: ", file, ": example ",
                       first + static_cast<int64_t>(i) / (rows[0].shape().num_elements() / count),
                       " (from 0) has the value ", values[i],
                       ", which is not a finite float32; correct it or remove the example"));
    }
  }
  if (!(largest > LargestPrepared(config.image())) || !WereByteImages(config)) return std::string();
  return absl::StrCat("--input: ", file, " has values above ", kLargestScaled,
                      ", but the run's data were images of bytes divided by 255; divide by 255, or "
                      "save a .npy of uint8, which is");
}

absl::Status ExplainMisfit(const v1::DataConfig& config, const std::string& file,
                           const Dataset& data, const absl::Status& status) {
  if (file.empty()) return status;
  if (HasRaggedInput(data)) {
    return absl::FailedPreconditionError(
        absl::StrCat("--input: ", file, " does not fit the run: ",
                     absl::StripSuffix(status.message(), "; use the run file of that checkpoint"),
                     "; give a file with the run's columns"));
  }
  const absl::Span<const int64_t> dims = data.fields()[0].example.shape.dims();
  const std::vector<int64_t> has(dims.begin(), dims.end());
  std::vector<int64_t> in_file;
  if (absl::EndsWith(file, ".npy")) {
    const absl::StatusOr<NpyArray> array = ReadNpyFile(file);
    if (array.ok()) in_file = array->dims;
  }
  const bool is_resized = !in_file.empty() && Product(in_file) != data.size() * Product(has);
  const std::string read =
      absl::StrCat("--input: ", file,
                   is_resized ? absl::StrCat(" has [", absl::StrJoin(in_file, ","), "] and") : "",
                   " is read as [", data.size(), ",", absl::StrJoin(has, ","), "]");
  const absl::StatusOr<std::vector<int64_t>> wanted = ShapeOfRunExamples(config);
  if (!wanted.ok()) {
    const absl::string_view message =
        absl::StripSuffix(status.message(), "; use the run file of that checkpoint");
    return absl::FailedPreconditionError(
        absl::StrCat(read, ", which does not fit the run (", message,
                     "); give examples of the shape that it was trained with"));
  }
  if (*wanted == has) return status;
  return absl::FailedPreconditionError(
      absl::StrCat(read, ", but the run's examples are [n,", absl::StrJoin(*wanted, ","), "]; ",
                   Reshaping(file, is_resized, data.size(), has, *wanted)));
}

std::string NamesWithShapes(const std::vector<FieldSpec>& fields) {
  return absl::StrJoin(fields, ", ", [](std::string* out, const FieldSpec& field) {
    absl::StrAppend(out, field.name, " ", ShapeOf(field));
  });
}

absl::Status ExplainMisfitOfProgram(const std::string& file, const std::vector<FieldSpec>& has,
                                    const std::vector<FieldSpec>& wanted) {
  std::vector<FieldSpec> missing;
  for (const FieldSpec& field : wanted) {
    const bool is_there = std::any_of(has.begin(), has.end(), [&](const FieldSpec& other) {
      return other.example == field.example && other.kind == field.kind;
    });
    if (!is_there) missing.push_back(field);
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "--input: ", file, " gives the model ", NamesWithShapes(has), ", but it lacks ",
      NamesWithShapes(missing.empty() ? wanted : missing), ": the examples of the program have ",
      NamesWithShapes(wanted), "; leave --input out, and the program's data set gives examples"));
}

absl::StatusOr<std::vector<Tensor>> ReadInputRows(const Dataset& data, int64_t first,
                                                  int64_t count) {
  std::vector<int64_t> indices(static_cast<size_t>(count));
  std::iota(indices.begin(), indices.end(), first);
  std::vector<Tensor> inputs, targets;
  std::vector<void*> rows;
  for (const FieldSpec& field : data.fields()) {
    if (field.is_ragged()) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", field.name, " of the examples is ragged, not an array"));
    }
    Shape shape({count});
    for (int64_t dim : field.example.shape.dims()) shape.AddDim(dim);
    Tensor& tensor = (IsTarget(field) ? targets : inputs).emplace_back(field.example.dtype, shape);
    rows.push_back(tensor.mutable_data());
  }
  RETURN_IF_ERROR(data.FillBatch(0, indices, rows));
  return inputs;
}

}  // namespace shoal
