#include "ml/nn/model.h"

#include "absl/strings/str_cat.h"

namespace shoal {
namespace {

using Part = BatchInput::Part;

Output AddPlaceholder(GraphBuilder& builder, const FieldSpec& field, Part part) {
  switch (part) {
    case Part::kKeys:
      return builder.Placeholder(absl::StrCat(field.name, "/keys"), DataType::kInt64,
                                 {kUnknownDim});
    case Part::kOffsets:
      return builder.Placeholder(absl::StrCat(field.name, "/offsets"), DataType::kInt64,
                                 {kUnknownDim});
    case Part::kWeights:
      return builder.Placeholder(absl::StrCat(field.name, "/weights"), DataType::kFloat32,
                                 {kUnknownDim});
    case Part::kDense:
      break;
  }
  Shape shape({kUnknownDim});
  for (int64_t dim : field.example.shape.dims()) shape.AddDim(dim);
  return builder.Placeholder(field.name, field.example.dtype, shape);
}

}  // namespace

std::vector<BatchInput> BatchInputs(const std::vector<FieldSpec>& fields) {
  std::vector<BatchInput> inputs;
  for (size_t f = 0; f < fields.size(); ++f) {
    if (!fields[f].is_ragged()) {
      inputs.push_back({f, Part::kDense});
      continue;
    }
    inputs.push_back({f, Part::kKeys});
    inputs.push_back({f, Part::kOffsets});
    if (fields[f].kind == FieldKind::kWeightedRagged) inputs.push_back({f, Part::kWeights});
  }
  return inputs;
}

FieldPlaceholders FindField(const std::vector<FieldSpec>& fields, absl::Span<const Output> batch,
                            absl::string_view name) {
  FieldPlaceholders found;
  const std::vector<BatchInput> inputs = BatchInputs(fields);
  for (size_t i = 0; i < inputs.size(); ++i) {
    if (fields[inputs[i].field].name != name) continue;
    switch (inputs[i].part) {
      case Part::kDense:
        found.values = batch[i];
        break;
      case Part::kKeys:
        found.keys = batch[i];
        break;
      case Part::kOffsets:
        found.offsets = batch[i];
        break;
      case Part::kWeights:
        found.weights = batch[i];
        break;
    }
  }
  return found;
}

size_t FirstTarget(const std::vector<FieldSpec>& fields) {
  for (size_t f = 0; f < fields.size(); ++f) {
    if (IsTarget(fields[f])) return f;
  }
  return fields.size();
}

std::vector<FieldSpec> InputFields(const std::vector<FieldSpec>& fields) {
  std::vector<FieldSpec> inputs;
  for (const FieldSpec& field : fields) {
    if (!IsTarget(field)) inputs.push_back(field);
  }
  return inputs;
}

std::vector<Output> InputQueue::Dequeue(GraphBuilder& builder) {
  const auto scope = builder.WithNameScope("batch");
  std::vector<Output> batch;
  for (const BatchInput& input : BatchInputs(fields_)) {
    batch.push_back(AddPlaceholder(builder, fields_[input.field], input.part));
  }
  batches_.push_back(batch);
  return batch;
}

}  // namespace shoal
