#include "worker/replica/batch_feeds.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/types/span.h"

namespace shoal {
namespace {

using Part = BatchInput::Part;

int64_t RoundedUp(int64_t count) {
  int64_t power = 1;
  while (power < count) power *= 2;
  return power;
}

int64_t KeysIn(const RaggedRows& rows, int64_t first_row, int64_t num_rows) {
  const absl::Span<const int64_t> offsets = rows.offsets();
  return offsets[static_cast<size_t>(first_row + num_rows)] -
         offsets[static_cast<size_t>(first_row)];
}

Shape ShapeOf(const FieldSpec& field, Part part, int64_t examples, int64_t capacity) {
  if (part == Part::kOffsets) return Shape({examples + 1});
  if (part != Part::kDense) return Shape({capacity});
  Shape shape({examples});
  for (const int64_t dim : field.example.shape.dims()) shape.AddDim(dim);
  return shape;
}

size_t RaggedBytes(Part part, int64_t examples, int64_t capacity) {
  switch (part) {
    case Part::kKeys:
      return static_cast<size_t>(capacity) * sizeof(int64_t);
    case Part::kOffsets:
      return static_cast<size_t>(examples + 1) * sizeof(int64_t);
    case Part::kWeights:
      return static_cast<size_t>(capacity) * sizeof(float);
    case Part::kDense:
      break;
  }
  return 0;
}

template <typename T>
void CopyPadded(absl::Span<const T> values, absl::Span<T> out) {
  std::copy(values.begin(), values.end(), out.begin());
  std::fill(out.begin() + static_cast<ptrdiff_t>(values.size()), out.end(), T{0});
}

}  // namespace

BatchFeeds::BatchFeeds(const InputQueue& queue, const std::vector<int64_t>& clone_examples,
                       std::vector<int64_t> capacities)
    : capacities_(std::move(capacities)) {
  const std::vector<FieldSpec>& fields = queue.fields();
  const std::vector<BatchInput> inputs = BatchInputs(fields);
  int64_t row = 0;
  for (size_t clone = 0; clone < queue.batches().size(); ++clone) {
    const int64_t examples = clone_examples[clone];
    if (examples == 0) continue;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const FieldSpec& field = fields[inputs[i].field];
      const int64_t capacity = capacities_[inputs[i].field];
      feeds_.push_back(
          {queue.batches()[clone][i], ShapeOf(field, inputs[i].part, examples, capacity)});
      Source& source = sources_.emplace_back();
      source.input = inputs[i];
      source.first_row = row;
      source.num_rows = examples;
      source.row_bytes = field.example.bytes();
      source.memory = Buffer(RaggedBytes(inputs[i].part, examples, capacity));
    }
    row += examples;
  }
  pointers_.resize(feeds_.size());
}

std::vector<int64_t> BatchFeeds::CapacitiesFor(const LoadedBatch& batch) const {
  std::vector<int64_t> capacities = capacities_;
  for (const Source& source : sources_) {
    if (source.input.part != Part::kKeys) continue;
    const int64_t keys =
        KeysIn(batch.ragged(source.input.field), source.first_row, source.num_rows);
    int64_t& capacity = capacities[source.input.field];
    if (keys > capacity) capacity = RoundedUp(keys);
  }
  return capacities;
}

bool BatchFeeds::Fits(const LoadedBatch& batch) const {
  return std::all_of(sources_.begin(), sources_.end(), [&](const Source& source) {
    return source.input.part != Part::kKeys ||
           KeysIn(batch.ragged(source.input.field), source.first_row, source.num_rows) <=
               capacities_[source.input.field];
  });
}

void BatchFeeds::Copy(const RaggedRows& rows, Source* source) {
  const absl::Span<const int64_t> offsets = rows.offsets().subspan(
      static_cast<size_t>(source->first_row), static_cast<size_t>(source->num_rows) + 1);
  const auto first = static_cast<size_t>(offsets.front());
  const auto count = static_cast<size_t>(offsets.back()) - first;
  switch (source->input.part) {
    case Part::kKeys:
      CopyPadded(rows.keys().subspan(first, count), source->memory.As<int64_t>());
      break;
    case Part::kWeights:
      CopyPadded(rows.weights().subspan(first, count), source->memory.As<float>());
      break;
    case Part::kOffsets:
      std::transform(offsets.begin(), offsets.end(), source->memory.As<int64_t>().begin(),
                     [&](int64_t offset) { return offset - offsets.front(); });
      break;
    case Part::kDense:
      break;
  }
}

const std::vector<const void*>& BatchFeeds::Bind(const LoadedBatch& batch) {
  for (size_t i = 0; i < sources_.size(); ++i) {
    Source& source = sources_[i];
    if (source.input.part == Part::kDense) {
      pointers_[i] = static_cast<const char*>(batch.fields[source.input.field]) +
                     static_cast<size_t>(source.first_row) * source.row_bytes;
      continue;
    }
    Copy(batch.ragged(source.input.field), &source);
    pointers_[i] = source.memory.data();
  }
  return pointers_;
}

std::vector<int64_t> FirstCapacities(const std::vector<FieldSpec>& fields,
                                     const std::vector<int64_t>& clone_examples) {
  const int64_t most = *std::max_element(clone_examples.begin(), clone_examples.end());
  std::vector<int64_t> capacities;
  for (const FieldSpec& field : fields) capacities.push_back(field.is_ragged() ? most : 0);
  return capacities;
}

}  // namespace shoal
