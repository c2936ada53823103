#include "ml/nn/model.h"

namespace shoal {

std::vector<Output> InputQueue::Dequeue(GraphBuilder& builder) {
  const auto scope = builder.WithNameScope("batch");
  std::vector<Output> batch;
  for (const FieldSpec& field : fields_) {
    Shape shape({kUnknownDim});
    for (int64_t dim : field.example.shape.dims()) shape.AddDim(dim);
    batch.push_back(builder.Placeholder(field.name, field.example.dtype, shape));
  }
  batches_.push_back(batch);
  return batch;
}

}  // namespace shoal
