#include "ml/data/tf_record_dataset.h"

#include <algorithm>
#include <climits>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

#include "base/file_system.h"
#include "base/hash.h"
#include "base/status_macros.h"
#include "ml/data/data_rules.h"
#include "ml/data/ids/record_ids.h"
#include "ml/data/image_decoder.h"
#include "ml/data/records/tf_example.pb.h"
#include "ml/data/records/tf_record_file.h"

namespace shoal {
namespace {

// The values of several features are kNumbers.
enum class InputKind { kNone, kEncodedImage, kRawPixels, kFloats, kNumbers };

// A feature of ids that so many records at the beginning do not have is a mistake in its name.
constexpr int64_t kMostWithoutIds = 1000;

// The types and sizes of the features of every record.
struct RecordLayout {
  InputKind input_kind = InputKind::kFloats;
  std::optional<ImageTarget> target;  // of encoded images
  Shape input_shape;
  std::vector<size_t> number_counts;  // values of each feature of numbers
  int64_t label_count = 0;            // floats of a target; 0: a class
};

// Memory that a thread reuses while it reads one record after the other.
struct Scratch {
  std::string buffer;
  tf::Example example;
  ImageTarget::Scratch image;
  std::vector<float> numbers;
  IdList ids;
};

// Returns the names of the features.
std::string FeaturesOf(const tf::Example& example) {
  std::vector<std::string> names;
  for (const auto& feature : example.features().feature()) names.push_back(feature.first);
  std::sort(names.begin(), names.end());
  return absl::StrJoin(names, ", ").substr(0, 400);
}

absl::Status MissingFeature(const tf::Example& example, const char* field,
                            const std::string& name) {
  return absl::InvalidArgumentError(
      absl::StrCat("has no feature \"", name, "\" (", field, "); it has ", FeaturesOf(example)));
}

absl::StatusOr<const tf::Feature*> FindFeature(const tf::Example& example, const char* field,
                                               const std::string& name) {
  const auto found = example.features().feature().find(name);
  if (found == example.features().feature().end()) return MissingFeature(example, field, name);
  return &found->second;
}

absl::Status Odd(const std::string& name, absl::string_view what) {
  return absl::DataLossError(absl::StrCat("feature \"", name, "\" ", what));
}

class TfRecordDataset final : public Dataset {
 public:
  explicit TfRecordDataset(const TfRecordDatasetOptions& options) : options_(options) {}

  int64_t size() const override { return size_; }
  const std::vector<FieldSpec>& fields() const override { return fields_; }
  uint64_t fingerprint() const override { return fingerprint_; }
  bool is_costly() const override { return true; }

  absl::Status Open() {
    const std::unique_ptr<FileSystem> files = NewPosixFileSystem();
    for (const std::string& path : options_.paths) {
      ASSIGN_OR_RETURN(std::unique_ptr<TfRecordFile> file, TfRecordFile::Open(*files, path));
      first_.push_back(size_);
      size_ += file->size();
      fingerprint_ = CombineFingerprints(fingerprint_, file->fingerprint());
      files_.push_back(std::move(file));
    }
    if (size_ == 0) {
      return absl::DataLossError(
          absl::StrCat(absl::StrJoin(options_.paths, ", "), ": no records; fetch the files again"));
    }
    if (options_.max_examples > 0) size_ = std::min(size_, options_.max_examples);
    RETURN_IF_ERROR(ReadLayout());
    RETURN_IF_ERROR(FindIdFeatures());
    fingerprint_ = CombineFingerprints(fingerprint_, Fingerprint64(fields_[0].example.ToString()));
    fingerprint_ = CombineFingerprints(fingerprint_, static_cast<uint64_t>(size_));
    AddIdsToFingerprint();
    return absl::OkStatus();
  }

  absl::Status FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                         absl::Span<void* const> outputs) const override {
    float* inputs = has_input() ? static_cast<float*>(outputs[0]) : nullptr;
    char* labels = static_cast<char*>(outputs[label_field()]);
    const absl::Span<void* const> of_ids = outputs.subspan(label_field() + 1);
    Scratch scratch;
    for (const int64_t index : indices) {
      RETURN_IF_ERROR(Parse(index, &scratch));
      absl::Status status = has_input() ? FillInput(&scratch, inputs) : absl::OkStatus();
      if (status.ok()) status = FillLabel(scratch.example, labels);
      if (status.ok()) status = FillIds(&scratch, of_ids);
      if (!status.ok()) return Named(index, status);
      if (has_input()) inputs += layout_.input_shape.num_elements();
      labels += fields_[label_field()].example.bytes();
    }
    return absl::OkStatus();
  }

 private:
  bool has_input() const { return layout_.input_kind != InputKind::kNone; }
  size_t label_field() const { return has_input() ? 1 : 0; }

  // The file that has an example, and its number there.
  std::pair<const TfRecordFile*, int64_t> Locate(int64_t index) const {
    const auto after = std::upper_bound(first_.begin(), first_.end(), index);
    const size_t file = static_cast<size_t>(after - first_.begin()) - 1;
    return {files_[file].get(), index - first_[file]};
  }

  absl::Status Named(int64_t index, const absl::Status& status) const {
    const auto [file, record] = Locate(index);
    return absl::Status(status.code(),
                        absl::StrCat(file->path(), ": record ", record, ": ", status.message()));
  }

  absl::Status Parse(int64_t index, Scratch* scratch) const {
    const auto [file, record] = Locate(index);
    ASSIGN_OR_RETURN(const absl::string_view bytes, file->Read(record, &scratch->buffer));
    if (bytes.size() <= INT_MAX &&
        scratch->example.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) {
      return absl::OkStatus();
    }
    return Named(index,
                 absl::DataLossError("is not a tf.Example; write tf.train.Example messages"));
  }

  absl::Status ReadLayout() {
    Scratch scratch;
    RETURN_IF_ERROR(Parse(0, &scratch));
    absl::Status status =
        options_.ids.empty() ? ReadInputLayout(scratch.example) : ReadNumberLayout(&scratch);
    if (status.ok()) status = ReadLabelLayout(scratch.example);
    if (!status.ok()) return Named(0, status);
    for (const IdColumn& ids : options_.ids) {
      fields_.push_back(
          RaggedField(FieldNameOf(ids, ids.column),
                      ids.weights.empty() ? FieldKind::kRagged : FieldKind::kWeightedRagged));
      takes_mean_.push_back(options_.rules.TakesMean(fields_.back().name));
    }
    return absl::OkStatus();
  }

  absl::Status ReadNumberLayout(Scratch* scratch) {
    layout_.input_kind = InputKind::kNone;
    if (options_.numbers.empty()) return absl::OkStatus();
    scratch->numbers.clear();
    for (const std::string& name : options_.numbers) {
      const size_t before = scratch->numbers.size();
      RETURN_IF_ERROR(AddRecordNumbers(scratch->example, name, &scratch->numbers));
      layout_.number_counts.push_back(scratch->numbers.size() - before);
    }
    layout_.input_kind = InputKind::kNumbers;
    layout_.input_shape = Shape({static_cast<int64_t>(scratch->numbers.size())});
    fields_.push_back({kInputField, {DataType::kFloat32, layout_.input_shape}});
    return absl::OkStatus();
  }

  // Checks that the first records have the features of ids, of which some may be missing in each.
  // Examples for predictions may be a single record.
  absl::Status FindIdFeatures() const {
    if (!options_.has_label) return absl::OkStatus();
    std::set<std::string> missing;
    for (const IdColumn& ids : options_.ids) {
      missing.insert(ids.column);
      if (!ids.weights.empty()) missing.insert(ids.weights);
    }
    std::string known;
    Scratch scratch;
    const int64_t records = std::min(size_, kMostWithoutIds);
    for (int64_t index = 0; index < records && !missing.empty(); ++index) {
      RETURN_IF_ERROR(Parse(index, &scratch));
      if (index == 0) known = FeaturesOf(scratch.example);
      for (const auto& feature : scratch.example.features().feature()) missing.erase(feature.first);
    }
    if (missing.empty()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        options_.paths[0], ": none of the first ", records, " records has the feature \"",
        *missing.begin(), "\" of data.ids; record 0 has ", known));
  }

  void AddIdsToFingerprint() {
    for (const std::string& name : options_.numbers) {
      fingerprint_ = CombineFingerprints(fingerprint_, Fingerprint64(name));
    }
    for (const IdColumn& ids : options_.ids) {
      const std::string what =
          absl::StrCat(ids.column, " ", ids.weights, " ", ids.missing.has_value() ? 1 : 0, " ",
                       ids.missing.value_or(0));
      fingerprint_ = CombineFingerprints(fingerprint_, Fingerprint64(what));
      for (const std::string& word : ids.missing_words) {
        fingerprint_ = CombineFingerprints(fingerprint_, Fingerprint64(word));
      }
    }
  }

  absl::Status ReadInputLayout(const tf::Example& example) {
    ASSIGN_OR_RETURN(const tf::Feature* input,
                     FindFeature(example, "data.tfrecord.input", options_.input));
    if (input->has_float_list() && input->float_list().value_size() > 0) {
      layout_.input_shape = Shape({input->float_list().value_size()});
    } else if (input->has_bytes_list() && input->bytes_list().value_size() == 1) {
      RETURN_IF_ERROR(ReadImageLayout(input->bytes_list().value(0)));
    } else {
      return Odd(options_.input, "is neither one byte string nor floats; set data.tfrecord.input");
    }
    fields_.push_back({kInputField, {DataType::kFloat32, layout_.input_shape}});
    return absl::OkStatus();
  }

  absl::Status ReadImageLayout(const std::string& bytes) {
    const ImageTargetOptions& image = options_.image;
    if (IsPng(bytes) || IsJpeg(bytes)) {
      ASSIGN_OR_RETURN(layout_.target, ImageTarget::Create(image, bytes));
      layout_.input_kind = InputKind::kEncodedImage;
      const ImageSize& size = layout_.target->size();
      layout_.input_shape = Shape({size.channels, size.height, size.width});
      return absl::OkStatus();
    }
    if (image.height == 0 || image.channels == 0) {
      return Odd(options_.input,
                 "is neither PNG nor JPEG; if it is raw pixels, set data.image.height, "
                 "data.image.width and data.image.channels");
    }
    layout_.input_kind = InputKind::kRawPixels;
    layout_.input_shape = Shape({image.channels, image.height, image.width});
    return absl::OkStatus();
  }

  absl::Status ReadLabelLayout(const tf::Example& example) {
    if (!options_.has_label) {
      fields_.push_back({kLabelField, {DataType::kInt32, {}}});
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const tf::Feature* label,
                     FindFeature(example, "data.tfrecord.label", options_.label));
    if (label->has_int64_list()) {
      fields_.push_back({kLabelField, {DataType::kInt32, {}}});
    } else if (label->has_float_list() && label->float_list().value_size() > 0) {
      layout_.label_count = label->float_list().value_size();
      fields_.push_back({kTargetField, {DataType::kFloat32, {layout_.label_count}}});
    } else {
      return Odd(options_.label, "is neither an integer nor floats; set data.tfrecord.label");
    }
    return absl::OkStatus();
  }

  absl::Status FillNumbers(Scratch* scratch, float* out) const {
    scratch->numbers.clear();
    for (size_t i = 0; i < options_.numbers.size(); ++i) {
      const size_t before = scratch->numbers.size();
      RETURN_IF_ERROR(AddRecordNumbers(scratch->example, options_.numbers[i], &scratch->numbers));
      const size_t count = scratch->numbers.size() - before;
      if (count == layout_.number_counts[i]) continue;
      return Odd(options_.numbers[i],
                 absl::StrCat("has ", count, " numbers, the first record has ",
                              layout_.number_counts[i], "; correct or remove the record"));
    }
    std::copy(scratch->numbers.begin(), scratch->numbers.end(), out);
    return absl::OkStatus();
  }

  absl::Status FillIds(Scratch* scratch, absl::Span<void* const> outputs) const {
    for (size_t i = 0; i < options_.ids.size(); ++i) {
      scratch->ids.Clear();
      RETURN_IF_ERROR(AddRecordIds(scratch->example, options_.ids[i], &scratch->ids));
      if (takes_mean_[i]) {
        const std::string wrong = WrongWeight(scratch->ids.weights);
        if (!wrong.empty()) return Odd(options_.ids[i].column, absl::StrCat("has an id ", wrong));
      }
      RaggedOutput(outputs[i]).AddExample(scratch->ids.keys, scratch->ids.weights);
    }
    return absl::OkStatus();
  }

  absl::Status FillInput(Scratch* scratch, float* out) const {
    if (layout_.input_kind == InputKind::kNumbers) return FillNumbers(scratch, out);
    ASSIGN_OR_RETURN(const tf::Feature* input,
                     FindFeature(scratch->example, "data.tfrecord.input", options_.input));
    if (layout_.input_kind == InputKind::kFloats) {
      return FillFloats(options_.input, *input, layout_.input_shape.num_elements(), out);
    }
    if (!input->has_bytes_list() || input->bytes_list().value_size() != 1) {
      return Odd(options_.input, "is not one byte string, as in the first record");
    }
    const std::string& bytes = input->bytes_list().value(0);
    if (layout_.input_kind == InputKind::kEncodedImage) {
      return layout_.target->Read(bytes, &scratch->image, out);
    }
    const ImageSize size = {layout_.input_shape.dim(1), layout_.input_shape.dim(2),
                            layout_.input_shape.dim(0)};
    if (static_cast<int64_t>(bytes.size()) != size.num_elements()) {
      return Odd(options_.input, absl::StrCat("has ", bytes.size(), " bytes, not the ",
                                              size.num_elements(), " of data.image"));
    }
    scratch->image.image.size = size;
    scratch->image.image.pixels.assign(bytes.begin(), bytes.end());
    ResizeToPlanes(scratch->image.image, size.height, size.width, &scratch->image.resize, out);
    return absl::OkStatus();
  }

  static absl::Status FillFloats(const std::string& name, const tf::Feature& feature, int64_t count,
                                 float* out) {
    if (feature.float_list().value_size() != count) {
      return Odd(name, absl::StrCat("has ", feature.float_list().value_size(),
                                    " floats, the first record has ", count));
    }
    std::copy(feature.float_list().value().begin(), feature.float_list().value().end(), out);
    return absl::OkStatus();
  }

  absl::Status FillTarget(const tf::Feature& label, float* out) const {
    RETURN_IF_ERROR(FillFloats(options_.label, label, layout_.label_count, out));
    const std::string wanted =
        layout_.label_count == 1 ? WantedTarget(*out, options_.rules) : std::string();
    if (wanted.empty()) return absl::OkStatus();
    return Odd(options_.label, absl::StrCat("is ", *out, ": ", wanted));
  }

  absl::Status FillLabel(const tf::Example& example, char* out) const {
    if (!options_.has_label) {
      *reinterpret_cast<int32_t*>(out) = 0;
      return absl::OkStatus();
    }
    ASSIGN_OR_RETURN(const tf::Feature* label,
                     FindFeature(example, "data.tfrecord.label", options_.label));
    if (layout_.label_count > 0) {
      return FillTarget(*label, reinterpret_cast<float*>(out));
    }
    if (label->int64_list().value_size() != 1) {
      return Odd(options_.label, absl::StrCat("has ", label->int64_list().value_size(),
                                              " integers; a class is one"));
    }
    const int64_t value = label->int64_list().value(0);
    if (value < 0 || value >= options_.num_classes) {
      return Odd(options_.label, absl::StrCat("is ", value, ": ",
                                              WantedClass(options_.num_classes, options_.rules,
                                                          "; correct it or set data.classes")));
    }
    *reinterpret_cast<int32_t*>(out) = static_cast<int32_t>(value);
    return absl::OkStatus();
  }

  const TfRecordDatasetOptions options_;
  std::vector<std::unique_ptr<TfRecordFile>> files_;
  std::vector<int64_t> first_;  // example of each file
  int64_t size_ = 0;
  uint64_t fingerprint_ = 0;
  RecordLayout layout_;
  std::vector<FieldSpec> fields_;
  std::vector<bool> takes_mean_;  // of each options_.ids
};

}  // namespace

absl::StatusOr<std::unique_ptr<Dataset>> OpenTfRecordDataset(
    const TfRecordDatasetOptions& options) {
  auto dataset = std::make_unique<TfRecordDataset>(options);
  RETURN_IF_ERROR(dataset->Open());
  return {std::move(dataset)};
}

}  // namespace shoal
