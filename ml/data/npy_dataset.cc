#include "ml/data/npy_dataset.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/status_macros.h"
#include "ml/data/byte_images.h"
#include "ml/data/data_rules.h"
#include "ml/data/in_memory_dataset.h"
#include "ml/data/npy_ids.h"
#include "ml/data/records/npy_file.h"
#include "ml/tensor/tensor.h"

namespace shoal {
namespace {

constexpr char kInputTypes[] = "float32, float64 or uint8";

bool IsColour(int64_t channels) { return channels == 1 || channels == 3; }

bool IsInteger(const NpyArray& array) { return array.kind == 'i' || array.kind == 'u'; }

absl::Status BadShape(const std::string& path, const NpyArray& array, absl::string_view wanted) {
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": is ", array.Type(), " [", absl::StrJoin(array.dims, ","), "]; it must be ", wanted));
}

absl::StatusOr<std::vector<int32_t>> LabelsFrom(const NpyDatasetOptions& options,
                                                const NpyArray& array, int64_t examples) {
  std::vector<int32_t> labels;
  for (int64_t i = 0; i < examples; ++i) {
    const double label = array.At(i);
    if (!(label >= 0 && label < static_cast<double>(options.num_classes))) {
      return absl::DataLossError(absl::StrCat(
          options.labels_path, ": label of row ", i, " is ", label, ": ",
          WantedClass(options.num_classes, options.rules, "; correct it or set data.classes")));
    }
    labels.push_back(static_cast<int32_t>(label));
  }
  return labels;
}

NpyArray ZeroLabels(int64_t examples) {
  NpyArray labels;
  labels.kind = 'u';
  labels.element_bytes = 1;
  labels.dims = {examples};
  labels.file.assign(static_cast<size_t>(examples), '\0');
  return labels;
}

// Returns a tensor of the first `examples` rows.
Tensor FloatsFrom(const NpyArray& array, int64_t examples, float scale) {
  Shape shape({examples});
  for (size_t d = 1; d < array.dims.size(); ++d) shape.AddDim(array.dims[d]);
  if (array.dims.size() == 1) shape.AddDim(1);
  Tensor tensor(DataType::kFloat32, shape);
  int64_t i = 0;
  for (float& value : tensor.mutable_span<float>()) {
    value = static_cast<float>(array.At(i++)) / scale;
  }
  return tensor;
}

absl::StatusOr<ByteImages> ImagesFrom(const NpyDatasetOptions& options, const NpyArray& array,
                                      int64_t examples) {
  const std::vector<int64_t>& dims = array.dims;
  const bool channels_last = dims.size() == 4 && IsColour(dims[3]);
  ByteImages images;
  if (dims.size() == 3) {
    images.size = {dims[1], dims[2], 1};
  } else if (channels_last) {
    images.size = {dims[1], dims[2], dims[3]};
  } else if (dims.size() == 4 && IsColour(dims[1])) {
    images.size = {dims[2], dims[3], dims[1]};
  } else {
    return BadShape(options.inputs_path, array,
                    "images [examples, height, width], with 1 or 3 channels before or after");
  }
  const int64_t image = images.size.num_elements();
  const absl::string_view bytes = array.elements().substr(0, static_cast<size_t>(examples * image));
  images.planes.assign(bytes.begin(), bytes.end());
  if (!channels_last || images.size.channels == 1) return images;
  const int64_t plane = images.size.height * images.size.width, channels = images.size.channels;
  for (int64_t i = 0; i < examples * image; ++i) {
    const int64_t at = i / image * image + i % channels * plane + i % image / channels;
    images.planes[static_cast<size_t>(at)] = static_cast<uint8_t>(bytes[static_cast<size_t>(i)]);
  }
  return images;
}

absl::Status CheckInputs(const NpyDatasetOptions& options, const NpyArray& inputs) {
  const bool bytes = inputs.kind == 'u' && inputs.element_bytes == 1;
  if (inputs.dims.size() < 2 || inputs.dims.size() > 5 || inputs.num_elements() == 0 ||
      (inputs.kind != 'f' && !bytes)) {
    return BadShape(
        options.inputs_path, inputs,
        absl::StrCat(kInputTypes, " [examples, ...] with 2 to 5 dimensions, not empty"));
  }
  if (!bytes || inputs.dims.size() == 2 || options.ids.empty()) return absl::OkStatus();
  return BadShape(options.inputs_path, inputs,
                  "numbers, not images, beside columns of ids: float32 [examples, columns]");
}

absl::Status CheckLabels(const NpyDatasetOptions& options, const NpyArray& labels) {
  const size_t most = labels.kind == 'f' ? 2 : 1;
  if (labels.dims.empty() || labels.dims.size() > most || labels.num_elements() == 0 ||
      (labels.kind != 'f' && !IsInteger(labels))) {
    return BadShape(options.labels_path, labels,
                    "integers [examples], or floating [examples] or [examples, columns]");
  }
  return absl::OkStatus();
}

absl::Status OtherLength(const std::string& path, int64_t examples, const std::string& other,
                         int64_t of_other, absl::string_view hint = "") {
  return absl::DataLossError(absl::StrCat(path, " has ", examples, " examples, ", other, " has ",
                                          of_other, ": they must be as many", hint));
}

absl::Status CheckArrays(const NpyDatasetOptions& options, const NpyArray& inputs,
                         const NpyArray& labels) {
  RETURN_IF_ERROR(CheckInputs(options, inputs));
  RETURN_IF_ERROR(CheckLabels(options, labels));
  if (inputs.dims[0] == labels.dims[0]) return absl::OkStatus();
  return OtherLength(options.inputs_path, inputs.dims[0], options.labels_path, labels.dims[0]);
}

// Checks numbers that stand beside ids.
absl::Status CheckFinite(const std::string& path, const Tensor& rows) {
  const absl::Span<const float> values = rows.span<float>();
  const int64_t examples = rows.shape().dim(0);
  const int64_t per_example = std::max<int64_t>(rows.shape().num_elements() / examples, 1);
  for (size_t i = 0; i < values.size(); ++i) {
    if (std::isfinite(values[i])) continue;
    return absl::DataLossError(absl::StrCat(path, ": row ", static_cast<int64_t>(i) / per_example,
                                            " has the value ", values[i],
                                            ", which is not a finite float32; correct it"));
  }
  return absl::OkStatus();
}

// Checks numbers that one output of the model is compared with.
absl::Status CheckTargets(const NpyDatasetOptions& options, const Tensor& rows) {
  if (rows.shape().num_elements() != rows.shape().dim(0)) return absl::OkStatus();
  int64_t row = 0;
  for (const float target : rows.span<float>()) {
    const std::string wanted = WantedTarget(target, options.rules);
    if (!wanted.empty()) {
      return absl::DataLossError(
          absl::StrCat(options.labels_path, ": label of row ", row, " is ", target, ": ", wanted));
    }
    ++row;
  }
  return absl::OkStatus();
}

absl::StatusOr<InMemoryDataset::Field> LabelField(const NpyDatasetOptions& options,
                                                  const NpyArray& labels, int64_t examples) {
  if (labels.kind == 'f') {
    InMemoryDataset::Field field{kTargetField, FloatsFrom(labels, examples, 1.0f)};
    RETURN_IF_ERROR(CheckTargets(options, field.rows));
    return field;
  }
  ASSIGN_OR_RETURN(const std::vector<int32_t> classes, LabelsFrom(options, labels, examples));
  Tensor rows(DataType::kInt32, {examples});
  std::copy(classes.begin(), classes.end(), rows.mutable_span<int32_t>().begin());
  return InMemoryDataset::Field{kLabelField, rows};
}

// Reads columns of ids, and the inputs and labels that there are.
absl::StatusOr<std::unique_ptr<Dataset>> LoadWithIds(const NpyDatasetOptions& options) {
  std::vector<NpyIds> columns;
  for (const IdColumn& ids : options.ids) {
    ASSIGN_OR_RETURN(columns.emplace_back(),
                     ReadNpyIds(ids, options.ids_directory, options.split, options.max_examples,
                                options.rules.TakesMean(FieldNameOf(ids, ids.column))));
  }
  int64_t all = columns[0].num_examples;
  std::string counted = columns[0].path;
  NpyArray labels = ZeroLabels(all);
  if (!options.labels_path.empty()) {
    ASSIGN_OR_RETURN(labels, ReadNpyFile(options.labels_path, "integers, float32 or float64"));
    RETURN_IF_ERROR(CheckLabels(options, labels));
    all = labels.dims[0];
    counted = options.labels_path;
  }
  for (const NpyIds& ids : columns) {
    if (ids.num_examples == all) continue;
    return OtherLength(ids.path, ids.num_examples, counted, all,
                       "; lists of ids need an array of offsets (docs/data_formats.md)");
  }
  if (all == 0) {
    return absl::DataLossError(absl::StrCat(counted, ": holds no examples; add some"));
  }
  const int64_t examples = options.max_examples > 0 ? std::min(options.max_examples, all) : all;
  std::vector<InMemoryDataset::Field> fields;
  if (!options.inputs_path.empty()) {
    ASSIGN_OR_RETURN(const NpyArray inputs, ReadNpyFile(options.inputs_path, kInputTypes));
    RETURN_IF_ERROR(CheckInputs(options, inputs));
    if (inputs.dims[0] != all) {
      return OtherLength(options.inputs_path, inputs.dims[0], counted, all);
    }
    fields.push_back(
        {kInputField, FloatsFrom(inputs, examples, inputs.kind == 'u' ? 255.0f : 1.0f)});
    RETURN_IF_ERROR(CheckFinite(options.inputs_path, fields[0].rows));
  }
  ASSIGN_OR_RETURN(fields.emplace_back(), LabelField(options, labels, examples));
  for (size_t i = 0; i < columns.size(); ++i) {
    InMemoryDataset::Field& field = fields.emplace_back();
    field.name = FieldNameOf(options.ids[i], options.ids[i].column);
    field.ragged = std::move(columns[i].rows);
  }
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, InMemoryDataset::Create(std::move(fields)));
  return dataset;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> LoadNpyDataset(const NpyDatasetOptions& options) {
  if (!options.ids.empty()) return LoadWithIds(options);
  ASSIGN_OR_RETURN(const NpyArray inputs, ReadNpyFile(options.inputs_path, kInputTypes));
  NpyArray labels;
  if (!options.labels_path.empty()) {
    ASSIGN_OR_RETURN(labels, ReadNpyFile(options.labels_path, "integers, float32 or float64"));
  } else if (!inputs.dims.empty() && inputs.num_elements() > 0) {
    labels = ZeroLabels(inputs.dims[0]);
  }
  RETURN_IF_ERROR(CheckArrays(options, inputs, labels));
  const int64_t examples =
      options.max_examples > 0 ? std::min(options.max_examples, inputs.dims[0]) : inputs.dims[0];
  if (inputs.kind == 'u' && inputs.dims.size() > 2 && labels.kind != 'f') {
    ASSIGN_OR_RETURN(std::vector<int32_t> classes, LabelsFrom(options, labels, examples));
    ASSIGN_OR_RETURN(ByteImages images, ImagesFrom(options, inputs, examples));
    images.labels = std::move(classes);
    images.num_classes = options.num_classes;
    return NewByteImageDataset(std::move(images), options.image);
  }
  std::vector<InMemoryDataset::Field> fields = {
      {kInputField, FloatsFrom(inputs, examples, inputs.kind == 'u' ? 255.0f : 1.0f)}};
  ASSIGN_OR_RETURN(fields.emplace_back(), LabelField(options, labels, examples));
  ASSIGN_OR_RETURN(std::unique_ptr<Dataset> dataset, InMemoryDataset::Create(std::move(fields)));
  return dataset;
}

}  // namespace shoal
