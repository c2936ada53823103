#include "ml/data/in_memory_dataset.h"

#include <cstring>
#include <set>
#include <utility>

#include "absl/memory/memory.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

#include "base/hash.h"

namespace shoal {
namespace {

Shape ExampleShape(const Shape& rows) { return Shape(rows.dims().subspan(1)); }

template <typename T>
uint64_t FingerprintOf(absl::Span<const T> values) {
  return Fingerprint64({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(T)});
}

uint64_t FingerprintOf(const std::vector<InMemoryDataset::Field>& fields) {
  uint64_t fingerprint = 0;
  for (const auto& field : fields) {
    if (field.ragged.has_value()) {
      fingerprint = CombineFingerprints(fingerprint, Fingerprint64(field.name + " ragged"));
      fingerprint = CombineFingerprints(fingerprint, FingerprintOf(field.ragged->keys()));
      fingerprint = CombineFingerprints(fingerprint, FingerprintOf(field.ragged->offsets()));
      fingerprint = CombineFingerprints(fingerprint, FingerprintOf(field.ragged->weights()));
      continue;
    }
    const std::string what = absl::StrCat(field.name, " ", field.rows.spec().ToString());
    const absl::string_view bytes(static_cast<const char*>(field.rows.data()), field.rows.bytes());
    fingerprint = CombineFingerprints(fingerprint, Fingerprint64(what));
    fingerprint = CombineFingerprints(fingerprint, Fingerprint64(bytes));
  }
  return fingerprint;
}

int64_t ExamplesOf(const InMemoryDataset::Field& field) {
  return field.ragged.has_value() ? field.ragged->num_examples() : field.rows.shape().dim(0);
}

FieldSpec SpecOf(const InMemoryDataset::Field& field) {
  FieldSpec spec;
  if (field.ragged.has_value()) {
    spec = RaggedField(
        field.name, field.ragged->has_weights() ? FieldKind::kWeightedRagged : FieldKind::kRagged);
  } else {
    spec = {field.name, {field.rows.dtype(), ExampleShape(field.rows.shape())}};
  }
  spec.is_target = field.is_target;
  return spec;
}

}  // namespace

absl::StatusOr<std::unique_ptr<InMemoryDataset>> InMemoryDataset::Create(
    std::vector<Field> fields, std::vector<std::string> class_names) {
  if (fields.empty()) return absl::InvalidArgumentError("a data set needs at least one field");
  std::set<std::string> names;
  for (const Field& field : fields) {
    if (!names.insert(field.name).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("there are two fields named ", field.name, "; rename one of them"));
    }
    if (!field.ragged.has_value() && field.rows.shape().rank() == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("field ", field.name, " is a scalar: its first dimension must be examples"));
    }
    const int64_t rows = ExamplesOf(field), first = ExamplesOf(fields[0]);
    if (rows != first) {
      return absl::InvalidArgumentError(absl::StrCat("field ", field.name, " has ", rows,
                                                     " examples, field ", fields[0].name, " has ",
                                                     first, ": they must be as many"));
    }
  }
  return absl::WrapUnique(new InMemoryDataset(std::move(fields), std::move(class_names)));
}

InMemoryDataset::InMemoryDataset(std::vector<Field> fields, std::vector<std::string> class_names)
    : fields_(std::move(fields)),
      class_names_(std::move(class_names)),
      size_(ExamplesOf(fields_[0])) {
  for (const Field& field : fields_) specs_.push_back(SpecOf(field));
  fingerprint_ = FingerprintOf(fields_);
  for (const std::string& name : class_names_) {
    fingerprint_ = CombineFingerprints(fingerprint_, Fingerprint64(name));
  }
}

absl::Status InMemoryDataset::FillBatch(uint32_t /*epoch*/, absl::Span<const int64_t> indices,
                                        absl::Span<void* const> outputs) const {
  for (size_t f = 0; f < fields_.size(); ++f) {
    if (const auto& ragged = fields_[f].ragged; ragged.has_value()) {
      RaggedRows& out = RaggedOutput(outputs[f]);
      for (int64_t index : indices) {
        out.AddExample(ragged->keys_of(index), ragged->weights_of(index));
      }
      continue;
    }
    const size_t row_bytes = specs_[f].example.bytes();
    const char* rows = static_cast<const char*>(fields_[f].rows.data());
    char* out = static_cast<char*>(outputs[f]);
    for (int64_t index : indices) {
      std::memcpy(out, rows + static_cast<size_t>(index) * row_bytes, row_bytes);
      out += row_bytes;
    }
  }
  return absl::OkStatus();
}

}  // namespace shoal
